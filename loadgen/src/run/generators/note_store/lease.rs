//! Notes as annotations of one Lease in a namespace of the run.
//!
//! Only the first generator creates the Lease. Another generator's note finds the Lease, or is
//! refused (404) and leaves nothing behind. A note is a merge patch of its annotation, which the
//! server applies atomically whatever others write. A note that must not exist yet is patched under
//! the resourceVersion at which it did not exist, and again if others have written meanwhile (409).
//!
//! Data sets contain no Leases, so the Lease is in no list or watch of a load.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use kube_api::client::KubeError;
use kube_api::media_type::{JSON, MERGE_PATCH};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{FIRST, Question};
use crate::seed::kube::{Api, Client, Reply};
use crate::timeouts::RESPONSE_TIMEOUT;

const API_VERSION: &str = "coordination.k8s.io/v1";
const NAME: &str = "loadgen-meeting";
/// The prefix of annotations that are notes.
const ANNOTATION: &str = "loadgen.test/";
/// How often a note is written again because others have written meanwhile.
const MAX_CONFLICTS: u32 = 100;
const AFTER_A_CONFLICT: Duration = Duration::from_millis(5);
/// Pause between reads of the questions.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The same while a generator asks: after one question it asks again.
const LOOK_EVERY_WHILE_ASKED: Duration = Duration::from_millis(5);
/// How long after a question a generator is assumed to ask again.
const ASKED_FOR: Duration = Duration::from_secs(1);

/// The Lease, and connections to the API. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub(in super::super) struct NoteLease {
    api: Api,
    /// The path of the namespace's Leases.
    collection: String,
    /// Connections that are not in use.
    idle: Arc<Mutex<Vec<Client>>>,
}

/// All notes, at one resourceVersion.
struct Notes {
    annotations: Map<String, Value>,
    version: String,
}

impl Notes {
    fn get(&self, name: &str) -> Option<&str> {
        self.annotations.get(&annotation(name))?.as_str()
    }
}

impl NoteLease {
    /// Returns the Lease of a namespace, whether or not it exists. Sends no request.
    pub(super) fn new(api: &Api, namespace: &str) -> Self {
        Self {
            api: api.clone(),
            collection: format!("/apis/{API_VERSION}/namespaces/{namespace}/leases"),
            idle: Arc::default(),
        }
    }

    /// Returns a note; `None` if there is none of this name.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Bytes>, KubeError> {
        let notes = self.read().await?;
        let note = notes.as_ref().and_then(|notes| notes.get(name));
        Ok(note.map(|text| Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Returns the numbers below `count` for which there is no note `WHAT/NUMBER`.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn without(&self, what: &str, count: u32) -> Result<Vec<u32>, KubeError> {
        let notes = self.read().await?;
        let is_there = |number: &u32| {
            let name = format!("{what}/{number}");
            notes
                .as_ref()
                .is_some_and(|notes| notes.get(&name).is_some())
        };
        Ok((0..count).filter(|number| !is_there(number)).collect())
    }

    /// Creates the Lease with the first note. Returns false if it exists already.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn open(&self, value: String) -> Result<bool, KubeError> {
        let lease = json!({
            "apiVersion": API_VERSION, "kind": "Lease",
            "metadata": {"name": NAME, "annotations": {annotation(FIRST): &value}},
            "spec": {"holderIdentity": FIRST},
        });
        let reply = self.send(&Method::POST, &self.collection, JSON, &lease);
        let reply = reply.await?;
        match reply.status {
            StatusCode::CREATED => Ok(true),
            // An earlier attempt, whose response was lost, may have created it.
            StatusCode::CONFLICT if reply.repeated => {
                let found = self.get(FIRST).await?;
                Ok(found.is_some_and(|found| found == value.as_bytes()))
            }
            StatusCode::CONFLICT => Ok(false),
            _ => Err(reply.refused(&Method::POST, &self.collection)),
        }
    }

    /// Writes a new note. Returns false if it exists already, or the Lease does not exist.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn add(&self, name: &str, value: String) -> Result<bool, KubeError> {
        let mut may_be_written = false;
        for _ in 0..MAX_CONFLICTS {
            let Some(notes) = self.read().await? else {
                return Ok(false);
            };
            if let Some(found) = notes.get(name) {
                return Ok(may_be_written && found == value);
            }
            let reply = self.patch(name, &value, Some(&notes.version)).await?;
            match reply.status {
                StatusCode::OK => return Ok(true),
                StatusCode::NOT_FOUND => return Ok(false),
                // Also if an earlier attempt, whose response was lost, has written it.
                StatusCode::CONFLICT => may_be_written |= reply.repeated,
                _ => return Err(reply.refused(&Method::PATCH, &self.path())),
            }
            sleep(AFTER_A_CONFLICT).await;
        }
        Err(self.in_conflict())
    }

    /// Writes a note. Returns whether the Lease exists.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn put(&self, name: &str, value: &str) -> Result<bool, KubeError> {
        for _ in 0..MAX_CONFLICTS {
            let reply = self.patch(name, value, None).await?;
            match reply.status {
                StatusCode::OK => return Ok(true),
                StatusCode::NOT_FOUND => return Ok(false),
                // A server may give up if others write all the time.
                StatusCode::CONFLICT => sleep(AFTER_A_CONFLICT).await,
                _ => return Err(reply.refused(&Method::PATCH, &self.path())),
            }
        }
        Err(self.in_conflict())
    }

    /// Deletes the Lease.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn remove(&self) -> Result<(), KubeError> {
        let path = self.path();
        let reply = self.send(&Method::DELETE, &path, JSON, &Value::Null);
        let reply = reply.await?;
        match reply.status {
            StatusCode::OK | StatusCode::ACCEPTED | StatusCode::NOT_FOUND => Ok(()),
            _ => Err(reply.refused(&Method::DELETE, &path)),
        }
    }

    /// Returns the stream of notes below `asked`.
    pub(super) fn questions(&self, asked: &str) -> LeaseQuestions {
        LeaseQuestions {
            lease: self.clone(),
            asked: annotation(asked),
            seen: HashMap::new(),
            busy_until: Instant::now(),
        }
    }

    /// Reads all current notes; `None` if the Lease does not exist.
    async fn read(&self) -> Result<Option<Notes>, KubeError> {
        let path = self.path();
        let reply = self.send(&Method::GET, &path, JSON, &Value::Null).await?;
        match reply.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(reply.refused(&Method::GET, &path)),
        }
        let mut lease = reply.json();
        let metadata = &mut lease["metadata"];
        let annotations = match metadata["annotations"].take() {
            Value::Object(annotations) => annotations,
            _ => Map::new(),
        };
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        Ok(Some(Notes {
            annotations,
            version: version.to_owned(),
        }))
    }

    /// Sends a note, on condition that the Lease is at `version`, if one is given.
    async fn patch(
        &self,
        name: &str,
        value: &str,
        version: Option<&str>,
    ) -> Result<Reply, KubeError> {
        let mut patch = json!({"metadata": {"annotations": {annotation(name): value}}});
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        self.send(&Method::PATCH, &self.path(), MERGE_PATCH, &patch)
            .await
    }

    /// Sends a request and waits for its response. A `body` of null is no body.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        media_type: &'static str,
        body: &Value,
    ) -> Result<Reply, KubeError> {
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let idle = self.idle.lock().pop();
        let mut client = match idle {
            Some(client) => client,
            None => self.api.client()?,
        };
        let sent = client.send(method, path, media_type, &body);
        let silent = |_| {
            let seconds = RESPONSE_TIMEOUT.as_secs();
            KubeError::Timeout(format!("{method} {path}: no response within {seconds} s"))
        };
        let reply = timeout(RESPONSE_TIMEOUT, sent).await.map_err(silent)??;
        // A connection with an abandoned request is not used again.
        self.idle.lock().push(client);
        Ok(reply)
    }

    fn path(&self) -> String {
        format!("{}/{NAME}", self.collection)
    }

    fn in_conflict(&self) -> KubeError {
        let path = self.path();
        KubeError::Body(format!(
            "{path} was changed by others each of {MAX_CONFLICTS} times that it was to be changed"
        ))
    }
}

/// Returns the annotation of a note. Slashes in the note's name become dots, since the name of an
/// annotation has only one slash.
fn annotation(name: &str) -> String {
    format!("{ANNOTATION}{}", name.replace('/', "."))
}

/// A stream of notes, which are polled.
pub(in super::super) struct LeaseQuestions {
    lease: NoteLease,
    /// The prefix of their annotations.
    asked: String,
    /// The latest question of each generator.
    seen: HashMap<String, String>,
    /// The time until which a generator is assumed to ask again.
    busy_until: Instant,
}

impl LeaseQuestions {
    /// Waits for the next questions. Costs a GET of the Lease every 100 ms, or every 5 ms while a
    /// generator asks.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn next(&mut self) -> Result<Vec<Question>, KubeError> {
        loop {
            sleep(match Instant::now() < self.busy_until {
                true => LOOK_EVERY_WHILE_ASKED,
                false => LOOK_EVERY,
            })
            .await;
            // The Lease does not exist before the rendezvous is opened.
            let Some(notes) = self.lease.read().await? else {
                continue;
            };
            let new = self.take_new(&notes);
            if !new.is_empty() {
                self.busy_until = Instant::now() + ASKED_FOR;
                return Ok(new);
            }
        }
    }

    /// Returns the questions that are new or have changed since the previous call.
    fn take_new(&mut self, notes: &Notes) -> Vec<Question> {
        let mut new = Vec::new();
        for (annotation, text) in &notes.annotations {
            let (Some(generator), Some(text)) =
                (annotation.strip_prefix(&self.asked), text.as_str())
            else {
                continue;
            };
            let seen = self.seen.entry(generator.to_owned()).or_default();
            if seen != text {
                text.clone_into(seen);
                new.push(Question {
                    generator: generator.to_owned(),
                    text: text.to_owned(),
                });
            }
        }
        new
    }
}

#[cfg(test)]
mod tests;
