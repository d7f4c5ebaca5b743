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

use event::{Event, ObjectRef, Query};
use serde_json::error::Category;

mod event;

/// The verb of watches.
const WATCH: &str = "watch";
/// Stages: the response to a watch begins, a request has ended, or its handler has panicked.
const STARTED: &str = "ResponseStarted";
const COMPLETE: &str = "ResponseComplete";
const PANIC: &str = "Panic";
/// The first bytes of a file that gzip has written.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The first status of a response that means a failure, and the one that means a conflict: a write
/// that found its object changed, or the name of a new object taken.
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
    #[error("audit log {}: fewer than two events at different times, so no rates can be computed", path.display())]
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
mod tests;
