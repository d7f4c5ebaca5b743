//! Counts the requests in an audit log of a kube-apiserver, by resource and form.
//!
//! The log has one JSON object per line, `audit.k8s.io/v1`. A request has an event for each of its
//! stages: the last, `ResponseComplete`, has its outcome. A watch is open from the event
//! `ResponseStarted` to the last one.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

/// The verb of watches.
const WATCH: &str = "watch";
/// The first status of a response that means a failure, and the one that means a conflict: an
/// update that found its object changed.
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
    /// Requests that failed, other than by a conflict.
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
    /// Reads a log. A last line that is cut short is passed over, since the apiserver may be
    /// writing it. Memory grows with the number of watches that are open at the same time.
    ///
    /// # Errors
    /// [`AuditLogError`] with the line.
    pub fn read(path: &Path) -> Result<Self, AuditLogError> {
        let failed = |source| AuditLogError::Read {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut counts = Counts::default();
        let mut bad: Option<(usize, String)> = None;
        for (line, text) in (1..).zip(std::io::BufReader::new(file).lines()) {
            let text = text.map_err(failed)?;
            if let Some((line, reason)) = bad {
                let path = path.to_owned();
                return Err(AuditLogError::Event { path, line, reason });
            }
            if text.trim().is_empty() {
                continue;
            }
            let event = serde_json::from_str(&text).map_err(|error| error.to_string());
            let counted = event.and_then(|event| counts.event(event));
            bad = counted.err().map(|reason| (line, reason));
        }
        counts.finish().ok_or_else(|| AuditLogError::Empty {
            path: path.to_owned(),
        })
    }
}

/// The counts so far.
#[derive(Default)]
struct Counts {
    log: AuditLog,
    /// The times of the first and the last event.
    window: Option<(SystemTime, SystemTime)>,
    /// The watches that are open, by audit id: their resource and when they began.
    open: BTreeMap<String, (String, SystemTime)>,
    /// The times of watches that have ended.
    watches: Vec<(String, SystemTime, SystemTime)>,
}

impl Counts {
    fn event(&mut self, event: Event) -> Result<(), String> {
        let time = |text: &str| {
            let time = humantime::parse_rfc3339(text);
            time.map_err(|error| format!("time `{text}`: {error}"))
        };
        let received = time(&event.request_received_timestamp)?;
        let at = time(&event.stage_timestamp)?;
        let (first, last) = self.window.unwrap_or((at, at));
        self.window = Some((first.min(at), last.max(at)));
        let Some(object) = event.object_ref.filter(is_counted) else {
            return Ok(());
        };
        let resource = object.stored_as();
        let query = Query::of(&event.request_uri);
        let is_whole = !object.is_partial(&query);
        match (event.stage.as_str(), event.verb.as_str()) {
            ("ResponseStarted", WATCH) if is_whole => {
                self.open.insert(event.audit_id, (resource, received));
            }
            ("ResponseComplete", verb) => {
                let status = event.response_status.map_or(0, |status| status.code);
                if status >= FAILED_FROM && status != CONFLICT {
                    self.log.failed += 1;
                    return Ok(());
                }
                self.open.remove(&event.audit_id);
                if verb == WATCH && is_whole {
                    self.watches.push((resource.clone(), received, at));
                }
                let requests = self.log.resources.entry(resource).or_default();
                requests.add(verb, is_whole, &query);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the log; `None` if its events span no time.
    fn finish(mut self) -> Option<AuditLog> {
        let (first, last) = self.window?;
        self.log.over = last
            .duration_since(first)
            .ok()
            .filter(|over| !over.is_zero())?;
        let open = self.open.into_values();
        let open = open.map(|(resource, begun)| (resource, begun, last));
        for (resource, begun, ended) in self.watches.into_iter().chain(open) {
            let watched = ended.duration_since(begun.max(first)).unwrap_or_default();
            self.log.resources.entry(resource).or_default().watched += watched;
        }
        Some(self.log)
    }
}

/// Returns whether a request is one to an object or a collection, or to the status of an object.
/// Others (logs, exec, evictions) ask little of etcd.
fn is_counted(object: &ObjectRef) -> bool {
    !object.resource.is_empty() && matches!(object.subresource.as_str(), "" | "status")
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

    /// Returns a parameter; empty if it is not given.
    fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl ObjectRef {
    /// Returns whether a list or a watch is of a part of the resource's objects.
    fn is_partial(&self, query: &Query) -> bool {
        !self.namespace.is_empty()
            || !self.name.is_empty()
            || !query.value("labelSelector").is_empty()
            || !query.value("fieldSelector").is_empty()
    }

    /// Returns the name below `/registry/` of the resource's objects: without the group where
    /// Kubernetes has chosen it, and in some cases an older name.
    fn stored_as(&self) -> String {
        let Self {
            resource,
            api_group: group,
            ..
        } = self;
        let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
        match (is_custom, resource.as_str()) {
            (true, _) => format!("{group}/{resource}"),
            (false, "nodes") => "minions".to_owned(),
            (false, "endpoints") => "services".to_owned(),
            (false, "ingresses") => "ingress".to_owned(),
            // Their groups are part of the keys, as those of custom resources are.
            (false, "customresourcedefinitions" | "apiservices") => format!("{group}/{resource}"),
            // Not stored: the metrics of pods and nodes.
            (false, _) if group.contains("metrics") => format!("{group}/{resource}"),
            (false, _) => resource.clone(),
        }
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
            // Further pages of a list that was counted.
            "list" if !query.value("continue").is_empty() => {}
            "list" if !is_whole => self.partial_lists += 1,
            WATCH if !is_whole => self.partial_watches += 1,
            "list" => self.list(
                match (query.value("resourceVersion"), query.value("limit")) {
                    ("", "" | "0") => "consistent".to_owned(),
                    ("", limit) => format!("paged:{limit}"),
                    // An apiserver ignores the limit of a list from its cache.
                    _ => "cached".to_owned(),
                },
            ),
            WATCH if query.value("sendInitialEvents") == "true" => {
                self.list("watch-list".to_owned());
            }
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
    const DONE: &str = "ResponseComplete";

    #[test]
    fn requests_are_counted_by_resource_and_form() {
        let one = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1"}"#;
        let status = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1","subresource":"status"}"#;
        let log_of_pod = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1","subresource":"log"}"#;
        let widgets = r#"{"resource":"widgets","apiGroup":"acme.io","apiVersion":"v1"}"#;
        let log = read(&[
            line(0, "RequestReceived", "get", one, ""),
            line(0, DONE, "get", one, ""),
            line(1, DONE, "patch", status, ""),
            line(1, DONE, "get", log_of_pod, ""),
            line(2, DONE, "list", PODS, "?limit=500"),
            line(3, DONE, "list", PODS, "?limit=500&continue=abc"),
            line(4, DONE, "list", PODS, "?limit=500&resourceVersion=0"),
            line(5, DONE, "list", PODS, "?labelSelector=app%3Dweb"),
            line(6, DONE, "list", widgets, ""),
            // Begun before the log, and ended in it.
            line(10, DONE, "watch", PODS, "?watch=true"),
            line(
                11,
                "ResponseStarted",
                "watch",
                PODS,
                "?sendInitialEvents=true",
            ),
            line(12, DONE, "watch", PODS, "?fieldSelector=metadata.name%3Da"),
            line(20, DONE, "delete", one, ""),
        ]);
        let log = log.expect("a log");
        assert_eq!(log.over, Duration::from_secs(20));
        let pods = &log.resources["pods"];
        let lists = [("cached".to_owned(), 1), ("paged:500".to_owned(), 1)];
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
    fn a_watch_list_counts_as_a_list_when_it_ends() {
        let log = read(&[
            line(0, DONE, "get", PODS, ""),
            line(9, DONE, "watch", PODS, "?sendInitialEvents=true"),
        ]);
        let log = log.expect("a log");
        assert_eq!(log.resources["pods"].lists["watch-list"], 1);
    }

    #[test]
    fn only_the_last_line_may_be_cut_short() {
        let whole = [
            line(0, DONE, "get", PODS, ""),
            line(1, DONE, "get", PODS, ""),
        ];
        let cut = whole[0][..90].to_owned();
        let log = read(&[whole[0].clone(), whole[1].clone(), cut.clone()]);
        assert_eq!(log.expect("a log").resources["pods"].gets, 2);
        let error = read(&[whole[0].clone(), cut, whole[1].clone()]);
        let text = error.expect_err("a cut line").to_string();
        assert!(text.contains("line 2:"), "{text}");
        let error = read(&[line(0, DONE, "get", PODS, "")]);
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
    }
}
