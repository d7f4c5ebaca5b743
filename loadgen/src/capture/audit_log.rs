//! Counts the requests in an audit log of a kube-apiserver, by resource and form.
//!
//! The log has one JSON object per line, `audit.k8s.io/v1`. A request has an event for each of its
//! stages: the last, `ResponseComplete`, has its outcome. A watch is open from the event
//! `ResponseStarted` to the last one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::error::Category;

/// The verb of watches.
const WATCH: &str = "watch";
/// Stages: the response to a watch begins, a request has ended, or its handler has panicked.
const STARTED: &str = "ResponseStarted";
const COMPLETE: &str = "ResponseComplete";
const PANIC: &str = "Panic";
/// The subresources whose requests read or write objects: those of others (logs, exec, proxies,
/// tokens) ask little of etcd.
const SUBRESOURCES: [&str; 9] = [
    "",
    "status",
    "scale",
    "finalize",
    "approval",
    "resize",
    "binding",
    "eviction",
    "ephemeralcontainers",
];
/// The first bytes of a file that gzip has written.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The groups with a dot that are Kubernetes' own, and whose objects' keys lack the group.
const OWN_GROUPS: [&str; 14] = [
    "admissionregistration.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];
/// The first status of a response that means a failure, and the one that means a conflict: a write
/// that found its object changed, or the name of a new object taken.
const CREATED: u16 = 201;
const FAILED_FROM: u16 = 400;
const CONFLICT: u16 = 409;

/// An error of an audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditLogError {
    /// The file could not be read.
    #[error("audit log {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line before the last is no event.
    #[error("audit log {}, line {line}: {reason}", path.display())]
    Event {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The cause.
        reason: String,
    },
    /// There are no two events of different times.
    #[error("audit log {}: no requests over a time are in it", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The requests of a log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditLog {
    /// The time from the first event to the last.
    pub over: Duration,
    /// The requests of each resource, by the name that its objects have below `/registry/`.
    pub resources: BTreeMap<String, ApiRequests>,
    /// Requests that were counted.
    pub requests: u64,
    /// Requests that failed, other than by a conflict of an update.
    pub failed: u64,
}

/// Requests of one resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiRequests {
    /// Reads of one object.
    pub gets: u64,
    /// Objects created.
    pub creates: u64,
    /// Objects updated, their status included.
    pub updates: u64,
    /// Objects patched, their status included.
    pub patches: u64,
    /// Objects deleted.
    pub deletes: u64,
    /// Deletions of a collection.
    pub delete_collections: u64,
    /// Lists of all objects, by the strategy that lists so. A list in pages counts once.
    pub lists: BTreeMap<String, u64>,
    /// Lists of one namespace, or with a selector.
    pub partial_lists: u64,
    /// Watches of one namespace, or with a selector.
    pub partial_watches: u64,
    /// The sum of the times that watches of all objects were open.
    pub watched: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: String,
    stage_timestamp: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    api_group: String,
    #[serde(default)]
    subresource: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl AuditLog {
    /// Reads a log of whole lines. A last line that is cut short is passed over, since the
    /// apiserver may be writing it. Memory grows with the number of watches in the log.
    ///
    /// # Errors
    /// [`AuditLogError`] with the line. It has no text of the line, which may name users.
    pub fn read(path: &Path) -> Result<Self, AuditLogError> {
        let failed = |source| AuditLogError::Read {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut counts = Counts::default();
        let mut bad: Option<(usize, String)> = None;
        for (line, text) in (1..).zip(std::io::BufReader::new(file).split(b'\n')) {
            let text = text.map_err(failed)?;
            if let Some((line, reason)) = bad {
                let path = path.to_owned();
                return Err(AuditLogError::Event { path, line, reason });
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let event = serde_json::from_slice(&text).map_err(|error| not_read(&text, &error));
            let counted = event.and_then(|event| counts.event(event));
            bad = counted.err().map(|reason| (line, reason));
        }
        counts.finish().ok_or_else(|| AuditLogError::Empty {
            path: path.to_owned(),
        })
    }
}

/// Returns why a line is no event, without any of its text.
fn not_read(text: &[u8], error: &serde_json::Error) -> String {
    let column = error.column();
    match error.classify() {
        _ if text.starts_with(GZIP) => "the file is compressed by gzip".to_owned(),
        Category::Data => format!("no event of audit.k8s.io/v1, at column {column}"),
        Category::Syntax | Category::Eof | Category::Io => format!("no JSON, at column {column}"),
    }
}

/// The counts so far.
#[derive(Default)]
struct Counts {
    log: AuditLog,
    /// The times of the first and the last event.
    window: Option<(SystemTime, SystemTime)>,
    /// The watches of all objects, by audit id. The events of one may come in any order.
    watches: HashMap<String, Watch>,
}

/// A watch of all objects of a resource.
struct Watch {
    resource: String,
    begun: SystemTime,
    /// When it ended, or must have ended by its `timeoutSeconds`; `None` if neither is known.
    ended: Option<SystemTime>,
}

impl Counts {
    fn event(&mut self, event: Event) -> Result<(), String> {
        let time = |text: &str| {
            humantime::parse_rfc3339(text)
                .map_err(|_| "a time is not as RFC 3339 has it".to_owned())
        };
        let received = time(&event.request_received_timestamp)?;
        let at = time(&event.stage_timestamp)?;
        let (first, last) = self.window.unwrap_or((at, at));
        self.window = Some((first.min(at), last.max(at)));
        let is_end = matches!(event.stage.as_str(), COMPLETE | PANIC);
        let Some(object) = event.object_ref.filter(ObjectRef::is_counted) else {
            return Ok(());
        };
        let query = Query::of(&event.request_uri);
        let status = event.response_status.map_or(0, |status| status.code);
        let verb = object.verb(&event.verb, status);
        // Nothing is written by an update of an object that has changed, but it costs as much.
        let is_conflict = status == CONFLICT && matches!(verb, "update" | "patch" | "delete");
        let has_failed = event.stage == PANIC || status >= FAILED_FROM && !is_conflict;
        if has_failed {
            self.log.failed += u64::from(is_end);
        } else if is_end {
            self.log.requests += 1;
        }
        let is_whole = !object.is_partial(&query);
        if verb == WATCH && is_whole && (is_end || event.stage == STARTED) {
            let timeout = query
                .value("timeoutSeconds")
                .parse()
                .map(Duration::from_secs);
            let ended = match (is_end, has_failed) {
                (_, true) => Some(received),
                (true, false) => Some(at),
                (false, false) => timeout
                    .ok()
                    .and_then(|timeout| received.checked_add(timeout)),
            };
            let is_new = self.watch(event.audit_id, object.stored_as(), received, ended, is_end);
            if is_new && !has_failed && query.value("sendInitialEvents") == "true" {
                let requests = self.log.resources.entry(object.stored_as()).or_default();
                requests.list("watch-list".to_owned());
            }
        } else if is_end && !has_failed && !query.is_dry_run() {
            let requests = self.log.resources.entry(object.stored_as()).or_default();
            requests.add(verb, is_whole, &query);
        }
        Ok(())
    }

    /// Adds what an event says of a watch; `is_known` if the watch has surely ended then. Returns
    /// whether it is the watch's first event.
    fn watch(
        &mut self,
        id: String,
        resource: String,
        begun: SystemTime,
        ended: Option<SystemTime>,
        is_known: bool,
    ) -> bool {
        match self.watches.entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(Watch {
                    resource,
                    begun,
                    ended,
                });
                true
            }
            Entry::Occupied(mut entry) => {
                if is_known {
                    entry.get_mut().ended = ended;
                }
                false
            }
        }
    }

    /// Returns the log; `None` if its events span no time.
    fn finish(mut self) -> Option<AuditLog> {
        let (first, last) = self.window?;
        self.log.over = last
            .duration_since(first)
            .ok()
            .filter(|over| !over.is_zero())?;
        for watch in self.watches.into_values() {
            let ended = watch.ended.unwrap_or(last).min(last);
            let watched = ended.duration_since(watch.begun.max(first));
            let requests = self.log.resources.entry(watch.resource).or_default();
            requests.watched += watched.unwrap_or_default();
        }
        Some(self.log)
    }
}

/// The query of a request's URI.
struct Query(BTreeMap<String, String>);

impl Query {
    fn of(uri: &str) -> Self {
        let query = uri.split_once('?').map_or("", |(_, query)| query);
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// Returns the strategy that lists all objects as this query does.
    fn strategy(&self) -> String {
        let (version, limit) = (self.value("resourceVersion"), self.value("limit"));
        match (self.value("resourceVersionMatch"), version, limit) {
            ("Exact", ..) => "exact".to_owned(),
            // An apiserver ignores the limit then.
            (_, "0", _) => "cached".to_owned(),
            (_, "", "" | "0") => "consistent".to_owned(),
            (_, _, "" | "0") => "cached".to_owned(),
            (_, _, limit) => format!("paged:{limit}"),
        }
    }

    /// Returns whether the request only tries what a write would do.
    fn is_dry_run(&self) -> bool {
        !self.value("dryRun").is_empty()
    }

    /// Returns a parameter; empty if it is not given.
    fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl ObjectRef {
    /// Returns whether a request reads or writes objects.
    fn is_counted(&self) -> bool {
        !self.resource.is_empty() && SUBRESOURCES.contains(&self.subresource.as_str())
    }

    /// Returns what a request does to the object: a binding is a POST that updates a pod, an
    /// eviction one that deletes it, and an update or a patch may have created its object.
    fn verb<'v>(&self, verb: &'v str, status: u16) -> &'v str {
        match (verb, self.subresource.as_str(), status) {
            ("create", "binding", _) => "update",
            ("create", "eviction", _) => "delete",
            ("update" | "patch", _, CREATED) => "create",
            _ => verb,
        }
    }

    /// Returns whether a list or a watch is of a part of the resource's objects.
    fn is_partial(&self, query: &Query) -> bool {
        !self.namespace.is_empty()
            || !self.name.is_empty()
            || !query.value("labelSelector").is_empty()
            || !query.value("fieldSelector").is_empty()
            || !query.value("shardSelector").is_empty()
    }

    /// Returns the name below `/registry/` of the resource's objects: without the group where
    /// Kubernetes has chosen it, and in some cases an older name.
    fn stored_as(&self) -> String {
        let Self {
            resource,
            api_group: group,
            ..
        } = self;
        if group.contains('.') && !OWN_GROUPS.contains(&group.as_str()) {
            return format!("{group}/{resource}");
        }
        let stored_as = match resource.as_str() {
            "nodes" => "minions",
            "endpoints" => "services",
            "ingresses" => "ingress",
            "replicationcontrollers" => "controllers",
            resource => resource,
        };
        stored_as.to_owned()
    }
}

impl ApiRequests {
    fn add(&mut self, verb: &str, is_whole: bool, query: &Query) {
        match verb {
            "get" => self.gets += 1,
            "create" => self.creates += 1,
            "update" => self.updates += 1,
            "patch" => self.patches += 1,
            "delete" => self.deletes += 1,
            "deletecollection" => self.delete_collections += 1,
            // Further pages of a list that was counted.
            "list" if !query.value("continue").is_empty() => {}
            "list" if !is_whole => self.partial_lists += 1,
            WATCH if !is_whole => self.partial_watches += 1,
            "list" => self.list(query.strategy()),
            _ => {}
        }
    }

    fn list(&mut self, strategy: String) {
        *self.lists.entry(strategy).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Returns a line of a log: `second` is when the stage was reached, a second after the request.
    fn line(second: u32, stage: &str, verb: &str, object: &str, query: &str) -> String {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{verb}{query}","stage":"{stage}","requestURI":"/api{query}","verb":"{verb}","user":{{"username":"hannibal"}},"objectRef":{object},"responseStatus":{{"metadata":{{}},"code":200}},"requestReceivedTimestamp":"2026-11-28T10:00:{before:02}.000000Z","stageTimestamp":"2026-11-28T10:00:{second:02}.000000Z"}}"#,
            before = second.saturating_sub(1),
        )
    }

    fn read(lines: &[String]) -> Result<AuditLog, AuditLogError> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(lines.join("\n").as_bytes())
            .expect("it takes the lines");
        AuditLog::read(file.path())
    }

    const PODS: &str = r#"{"resource":"pods","apiVersion":"v1"}"#;

    #[test]
    fn requests_are_counted_by_resource_and_form() {
        let one = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1"}"#;
        let status = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1","subresource":"status"}"#;
        let log_of_pod = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1","subresource":"log"}"#;
        let widgets = r#"{"resource":"widgets","apiGroup":"acme.io","apiVersion":"v1"}"#;
        let log = read(&[
            line(0, "RequestReceived", "get", one, ""),
            line(0, COMPLETE, "get", one, ""),
            line(1, COMPLETE, "patch", status, ""),
            line(1, COMPLETE, "get", log_of_pod, ""),
            line(2, COMPLETE, "list", PODS, "?limit=500"),
            line(3, COMPLETE, "list", PODS, "?limit=500&continue=abc"),
            line(4, COMPLETE, "list", PODS, "?limit=500&resourceVersion=0"),
            line(5, COMPLETE, "list", PODS, "?labelSelector=app%3Dweb"),
            line(6, COMPLETE, "list", widgets, ""),
            // Begun before the log, and ended in it.
            line(10, COMPLETE, "watch", PODS, "?watch=true"),
            line(11, STARTED, "watch", PODS, "?sendInitialEvents=true"),
            line(
                12,
                COMPLETE,
                "watch",
                PODS,
                "?fieldSelector=metadata.name%3Da",
            ),
            line(20, COMPLETE, "delete", one, ""),
        ]);
        let log = log.expect("a log");
        assert_eq!(log.over, Duration::from_secs(20));
        let pods = &log.resources["pods"];
        let lists = ["cached", "paged:500", "watch-list"].map(|by| (by.to_owned(), 1));
        assert_eq!(
            *pods,
            ApiRequests {
                gets: 1,
                patches: 1,
                deletes: 1,
                lists: BTreeMap::from(lists),
                partial_lists: 1,
                partial_watches: 1,
                // One second of the one that ended, ten of the one that is open.
                watched: Duration::from_secs(11),
                ..ApiRequests::default()
            }
        );
        assert_eq!(log.resources["acme.io/widgets"].lists["consistent"], 1);
    }

    #[test]
    fn a_watch_that_failed_was_never_open() {
        let query = "?timeoutSeconds=500";
        let with_status =
            |line: String, code: u16| line.replace(r#""code":200"#, &format!(r#""code":{code}"#));
        let log = read(&[
            line(0, COMPLETE, "get", PODS, ""),
            with_status(
                line(1, STARTED, "watch", PODS, &query.replace('0', "1")),
                410,
            ),
            with_status(
                line(1, COMPLETE, "watch", PODS, &query.replace('0', "1")),
                410,
            ),
            // Nobody who is not authenticated gets further than this.
            with_status(
                line(2, STARTED, "watch", PODS, &query.replace('0', "2")),
                401,
            ),
            // The end comes before the beginning.
            line(5, COMPLETE, "watch", PODS, &query.replace('0', "3")),
            line(4, STARTED, "watch", PODS, &query.replace('0', "3")),
            line(6, PANIC, "watch", PODS, &query.replace('0', "4")),
            // It must have ended after five seconds.
            line(10, STARTED, "watch", PODS, "?timeoutSeconds=5"),
            line(60, COMPLETE, "get", PODS, ""),
        ]);
        let log = log.expect("a log");
        assert_eq!(log.resources["pods"].watched, Duration::from_secs(1 + 5));
        assert_eq!((log.requests, log.failed), (3, 2));
    }

    #[test]
    fn a_write_counts_as_what_it_does() {
        let of = |subresource: &str| {
            format!(
                r#"{{"resource":"pods","namespace":"n","name":"a","subresource":"{subresource}"}}"#
            )
        };
        let created = line(4, COMPLETE, "patch", &of(""), "").replace(":200", ":201");
        let taken = line(5, COMPLETE, "create", &of(""), "").replace(":200", ":409");
        let changed = line(6, COMPLETE, "update", &of("status"), "").replace(":200", ":409");
        let log = read(&[
            line(0, COMPLETE, "create", &of("binding"), ""),
            line(1, COMPLETE, "create", &of("eviction"), ""),
            line(2, COMPLETE, "create", &of("exec"), ""),
            line(3, COMPLETE, "patch", &of(""), "?dryRun=All"),
            created,
            taken,
            changed,
            line(7, COMPLETE, "list", PODS, "?shardSelector=shardRange()"),
            line(
                8,
                COMPLETE,
                "list",
                PODS,
                "?resourceVersion=7&resourceVersionMatch=Exact",
            ),
            line(9, COMPLETE, "deletecollection", PODS, ""),
        ]);
        let log = log.expect("a log");
        assert_eq!(
            log.resources["pods"],
            ApiRequests {
                creates: 1,
                updates: 2,
                deletes: 1,
                delete_collections: 1,
                lists: BTreeMap::from([("exact".to_owned(), 1)]),
                partial_lists: 1,
                ..ApiRequests::default()
            }
        );
        assert_eq!(log.failed, 1, "the name of a new object was taken");
    }

    #[test]
    fn errors_have_no_text_of_the_log() {
        let whole = line(0, COMPLETE, "get", PODS, "");
        for (text, says) in [
            (
                r#"{"user":"hannibal"}"#,
                "line 1: no event of audit.k8s.io/v1",
            ),
            (r#"{"user":"hannibal""#, "line 1: no JSON, at column"),
            ("\u{1f}\u{8b}hannibal", "line 1: no JSON"),
            (
                &whole.replace("2026-11-28T10", "hannibal"),
                "line 1: a time is not",
            ),
        ] {
            let error = read(&[text.to_owned(), whole.clone()]).expect_err("no event");
            let error = error.to_string();
            assert!(
                error.contains(says) && !error.contains("hannibal"),
                "{error}"
            );
        }
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(b"\x1f\x8b\x08 and more\nand more\n")
            .expect("it takes the bytes");
        let error = AuditLog::read(file.path())
            .expect_err("no event")
            .to_string();
        assert!(error.contains("compressed by gzip"), "{error}");
    }

    #[test]
    fn a_watch_list_counts_as_a_list_once() {
        let log = read(&[
            line(0, COMPLETE, "get", PODS, ""),
            line(8, STARTED, "watch", PODS, "?sendInitialEvents=true"),
            line(9, COMPLETE, "watch", PODS, "?sendInitialEvents=true"),
        ]);
        let log = log.expect("a log");
        assert_eq!(log.resources["pods"].lists["watch-list"], 1);
    }

    #[test]
    fn only_the_last_line_may_be_cut_short() {
        let whole = [
            line(0, COMPLETE, "get", PODS, ""),
            line(1, COMPLETE, "get", PODS, ""),
        ];
        let cut = whole[0][..90].to_owned();
        let log = read(&[whole[0].clone(), whole[1].clone(), cut.clone()]);
        assert_eq!(log.expect("a log").resources["pods"].gets, 2);
        let error = read(&[whole[0].clone(), cut, whole[1].clone()]);
        let text = error.expect_err("a cut line").to_string();
        assert!(text.contains("line 2:"), "{text}");
        let error = read(&[line(0, COMPLETE, "get", PODS, "")]);
        let text = error.expect_err("no time").to_string();
        assert!(text.contains("no requests over a time"), "{text}");
    }

    #[test]
    fn names_are_those_of_the_keys() {
        let stored_as = |resource: &str, group: &str| {
            let object = ObjectRef {
                resource: resource.to_owned(),
                namespace: String::new(),
                name: String::new(),
                api_group: group.to_owned(),
                subresource: String::new(),
            };
            object.stored_as()
        };
        assert_eq!(stored_as("deployments", "apps"), "deployments");
        assert_eq!(stored_as("leases", "coordination.k8s.io"), "leases");
        assert_eq!(stored_as("nodes", ""), "minions");
        assert_eq!(stored_as("pods", "metrics.k8s.io"), "metrics.k8s.io/pods");
        assert_eq!(stored_as("widgets", "acme.io"), "acme.io/widgets");
        let routes = stored_as("httproutes", "gateway.networking.k8s.io");
        assert_eq!(routes, "gateway.networking.k8s.io/httproutes");
        assert_eq!(stored_as("replicationcontrollers", ""), "controllers");
    }
}
