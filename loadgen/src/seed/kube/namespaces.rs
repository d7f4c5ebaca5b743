//! The namespaces that a run creates, fills and removes. Their names are unique to the run, and a
//! label identifies the run: a namespace without that label is never changed.
//!
//! - [`finalize`]: finalizes a namespace that has no controller

mod finalize;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Method, StatusCode};
use kube_api::GroupVersionResource;
use kube_api::client::KubeError;
use kube_api::media_type::JSON;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::Client;
use super::{Api, SeedError, object};
use crate::progress::Phase;
use finalize::FinalizeError;

/// The label of the run's namespaces; its value identifies the run.
const LABEL: &str = "loadgen.test/run";
/// The number of namespaces that are removed concurrently.
const CONCURRENT_REQUESTS: usize = 8;
/// The longest time that the removal of all may take. An apiserver deletes some thousand objects a
/// second.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(300);
/// The time after which a deleted namespace whose status no controller has updated is assumed to
/// have no controller.
const NO_CONTROLLER_AFTER: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The number of names that a message lists.
const NAMED: usize = 3;

/// The namespaces of one data set of one run.
#[derive(Debug)]
pub struct Namespaces {
    run: String,
    begin: String,
    names: Vec<String>,
    /// The number of namespaces whose creation was requested: they may exist, whether or not there
    /// was a response.
    asked: AtomicUsize,
    waits: Waits,
}

/// The times for which removal waits.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// The time after which a namespace is reported as left.
    removed: Duration,
    /// The time until a namespace without a controller is finalized, and between two attempts.
    controller: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            removed: REMOVE_TIMEOUT,
            controller: NO_CONTROLLER_AFTER,
        }
    }
}

/// Namespaces that could not be removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("left behind: {}; {}{}", listed(names), by_hand(run), because(reason.as_ref()))]
pub struct Left {
    /// The value of their label.
    run: String,
    /// Their names.
    pub names: Vec<String>,
    /// The reason why the first of them still exists.
    reason: Option<String>,
}

/// Returns the command that removes the namespaces that are left.
fn by_hand(run: &str) -> String {
    format!("remove with: kubectl delete namespace -l {LABEL}={run}")
}

fn because(reason: Option<&String>) -> String {
    reason
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default()
}

/// Returns the first names and the number of the others.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let more = names.len().saturating_sub(NAMED);
    let and = match more {
        0 => String::new(),
        more => format!(" and {more} more namespaces"),
    };
    format!("{}{and}", shown.join(", "))
}

impl Namespaces {
    /// Returns names for `number` namespaces of a run's data set number `nth`; `run` is unique to
    /// the run. Sends nothing.
    #[must_use]
    pub fn new(run: &str, nth: usize, number: u64) -> Self {
        let begin = format!("loadgen-{run}-{nth}-");
        Self {
            run: run.to_owned(),
            // All numbers have the same digits, so that the names sort by number.
            names: (0..number).map(|i| format!("{begin}{i:05}")).collect(),
            begin,
            asked: AtomicUsize::new(0),
            waits: Waits::default(),
        }
    }

    /// Returns the prefix of all names.
    #[must_use]
    pub fn names_begin(&self) -> &str {
        &self.begin
    }

    /// Returns all names, in the order of their keys.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the name, if there is only one.
    pub(super) fn only(&self) -> Option<&str> {
        match self.names.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns the name at index `i`.
    pub(super) fn name(&self, i: u64) -> &str {
        let i = usize::try_from(i).unwrap_or(usize::MAX);
        self.names.get(i).map_or("", String::as_str)
    }

    /// Returns the message for namespaces that are kept.
    #[must_use]
    pub fn kept(&self) -> String {
        format!(
            "{} namespaces {}… stay as asked; {}",
            self.names.len(),
            self.begin,
            by_hand(&self.run)
        )
    }

    /// Creates all namespaces.
    ///
    /// # Errors
    /// [`SeedError::NamespaceExists`] if one exists that this run has not created, or the API's
    /// error.
    pub async fn create(&self, api: &Api) -> Result<(), SeedError> {
        let mut client = api.client()?;
        for name in &self.names {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let created = self.create_one(&mut client, name).await;
            if let Err(SeedError::NamespaceExists(_)) = &created {
                // The namespace may be that of another generator of this run, which has the same
                // label.
                self.asked.fetch_sub(1, Ordering::Relaxed);
            }
            created?;
        }
        Ok(())
    }

    async fn create_one(&self, client: &mut Client, name: &str) -> Result<(), SeedError> {
        const PATH: &str = "/api/v1/namespaces";
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name,
                // The pods run nowhere, so any security context is harmless.
                "labels": {LABEL: self.run, "pod-security.kubernetes.io/enforce": "privileged"},
            },
        });
        let body = Bytes::from(namespace.to_string());
        let reply = client.send(&Method::POST, PATH, JSON, &body).await?;
        match reply.status {
            StatusCode::CREATED => {}
            StatusCode::CONFLICT => {
                let found = look(client, name).await?;
                let is_own = found.is_some_and(|found| self.is_own(&found));
                if !(reply.repeated && is_own) {
                    return Err(SeedError::NamespaceExists(name.to_owned()));
                }
            }
            _ => return Err(reply.refused(&Method::POST, PATH).into()),
        }
        // Pods are admitted only if their service account exists. A controller creates it soon, if
        // there is one; some servers have no service accounts.
        let path = format!("{PATH}/{name}/serviceaccounts");
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": object::ACCOUNT},
        });
        let body = Bytes::from(account.to_string());
        let good = [
            StatusCode::CREATED,
            StatusCode::CONFLICT,
            StatusCode::NOT_FOUND,
        ];
        client
            .must(&Method::POST, &path, JSON, &body, &good)
            .await?;
        Ok(())
    }

    /// Removes the namespaces that were created, with everything in them, within five minutes.
    /// `phase` counts namespaces.
    ///
    /// # Errors
    /// [`Left`] with those that still exist, or may exist.
    pub async fn remove(&self, api: &Api, resource: &str, phase: &Phase) -> Result<(), Left> {
        let asked = self.asked.load(Ordering::Relaxed);
        let deadline = Instant::now() + self.waits.removed;
        let removals = self.names.iter().take(asked).map(|name| async move {
            let hindrance = Mutex::new(None);
            let removal = self.remove_one(api, resource, name, &hindrance);
            let reason = match tokio::time::timeout_at(deadline, removal).await {
                Ok(Ok(())) => return None,
                Ok(Err(error)) => error.to_string(),
                Err(_) => {
                    let seconds = self.waits.removed.as_secs();
                    let why = hindrance.lock().take();
                    let why = why.map(|why: FinalizeError| format!(": {why}"));
                    format!("not gone after {seconds} s{}", why.unwrap_or_default())
                }
            };
            Some((name.clone(), reason))
        });
        let removals = stream::iter(removals).buffer_unordered(CONCURRENT_REQUESTS);
        let left: Vec<_> = removals
            .inspect(|_| phase.advance(1))
            .filter_map(|left| async { left })
            .collect()
            .await;
        let reason = left.first().map(|(_, reason)| reason.clone());
        let mut names: Vec<_> = left.into_iter().map(|(name, _)| name).collect();
        names.sort();
        match names.is_empty() {
            true => Ok(()),
            false => Err(Left {
                run: self.run.clone(),
                names,
                reason,
            }),
        }
    }

    /// Removes a namespace, without a timeout. Sets `hindrance` to the reason why it cannot be
    /// finalized, while there is one.
    async fn remove_one(
        &self,
        api: &Api,
        resource: &str,
        name: &str,
        hindrance: &Mutex<Option<FinalizeError>>,
    ) -> Result<(), KubeError> {
        let mut client = api.client()?;
        let Some(found) = look(&mut client, name).await? else {
            return Ok(());
        };
        if !self.is_own(&found) {
            return Ok(());
        }
        let collection = GroupVersionResource::core(resource).collection(Some(name));
        empty(&mut client, &collection).await?;
        delete(&mut client, &found, name).await?;
        // Deletes objects that were still being written during the first deletion.
        empty(&mut client, &collection).await?;
        self.until_gone(&mut client, name, hindrance).await
    }

    /// Waits until a namespace is gone. Finalizes it if no controller would, and nothing is in it.
    async fn until_gone(
        &self,
        client: &mut Client,
        name: &str,
        hindrance: &Mutex<Option<FinalizeError>>,
    ) -> Result<(), KubeError> {
        let mut patient_until = Instant::now() + self.waits.controller;
        loop {
            let Some(found) = look(client, name).await? else {
                return Ok(());
            };
            if !finalize::has_no_controller_progress(&found) {
                *hindrance.lock() = None;
            } else if Instant::now() >= patient_until {
                // A controller may still start, so waiting continues.
                let ended = finalize::end(client, found, name).await;
                *hindrance.lock() = ended.err();
                patient_until = Instant::now() + self.waits.controller;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn is_own(&self, namespace: &Value) -> bool {
        namespace["metadata"]["labels"][LABEL].as_str() == Some(&self.run)
    }
}

/// Reads a namespace; returns `None` if there is none.
async fn look(client: &mut Client, name: &str) -> Result<Option<Value>, KubeError> {
    let path = format!("/api/v1/namespaces/{name}");
    let good = [StatusCode::OK, StatusCode::NOT_FOUND];
    let reply = client
        .must(&Method::GET, &path, JSON, &Bytes::new(), &good)
        .await?;
    Ok((reply.status == StatusCode::OK).then(|| reply.json()))
}

/// Deletes the objects of a collection until it is empty: the deletion may take longer than a
/// server permits for one request.
async fn empty(client: &mut Client, collection: &str) -> Result<(), KubeError> {
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let now = Bytes::from(now.to_string());
    let one = format!("{collection}?limit=1");
    let good = [StatusCode::OK];
    loop {
        let list = client
            .must(&Method::GET, &one, JSON, &Bytes::new(), &good)
            .await?;
        let list = list.json();
        if list["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        client
            .must(&Method::DELETE, collection, JSON, &now, &good)
            .await?;
    }
}

/// Deletes exactly this namespace, and not a newer one of the same name.
async fn delete(client: &mut Client, namespace: &Value, name: &str) -> Result<(), KubeError> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": namespace["metadata"]["uid"]},
    });
    let path = format!("/api/v1/namespaces/{name}");
    // Conflict: it is being deleted already, or the name belongs to a newer namespace.
    let good = [
        StatusCode::OK,
        StatusCode::ACCEPTED,
        StatusCode::NOT_FOUND,
        StatusCode::CONFLICT,
    ];
    let body = Bytes::from(options.to_string());
    client
        .must(&Method::DELETE, &path, JSON, &body, &good)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_and_rise_with_their_numbers() {
        let namespaces = Namespaces::new("20261121t213035z-4194304", 12, 10_001);
        let names = namespaces.names();
        assert!(names.iter().all(|name| name.len() <= 63));
        let keys: Vec<_> = names.iter().map(|name| format!("{name}/")).collect();
        assert!(keys.is_sorted());
        assert!(
            names
                .iter()
                .all(|name| name.starts_with(namespaces.names_begin()))
        );
    }

    #[test]
    fn what_is_left_is_one_line_that_names_it() {
        let left = |number| Left {
            run: "r".to_owned(),
            names: (0..number).map(|i| format!("n{i}")).collect(),
            reason: Some("why".to_owned()),
        };
        assert_eq!(
            left(2).to_string(),
            "left behind: n0, n1; remove with: kubectl delete namespace -l loadgen.test/run=r (why)"
        );
        assert!(
            left(5)
                .to_string()
                .contains("n0, n1, n2 and 2 more namespaces;")
        );
    }
}
