//! The collection that is probed. It must be small enough to be read as a whole, since a server may
//! ignore a limit.

use http::{Method, StatusCode};
use serde_json::json;

use super::list::List;
use super::requests::{CheckError, Requests};
use super::{KubeEndpoint, KubeProbeError};
use crate::progress::{Counted, Progress};
use crate::seed::kube::{Api, Namespaces};
use kube_api::client::KubeError;
use kube_api::media_type::JSON;

/// Collections that every cluster has and that are small in most, in the order in which they are
/// tried.
const CANDIDATES: [&str; 5] = [
    "/api/v1/namespaces/kube-system/configmaps",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/namespaces/kube-system/pods",
];
/// The fewest and the most objects of a collection.
const MIN_OBJECTS: u64 = 4;
const MAX_OBJECTS: u64 = 200;
/// The number of objects that are read to estimate a collection's size, and the largest size.
const SAMPLE: u64 = 3;
const MAX_BYTES: u64 = 4 << 20;
/// The number of objects in a collection of the probe's own.
const SEEDED_KEYS: usize = 25;
/// The resource of a collection of the probe's own.
const RESOURCE: &str = "configmaps";

/// The collection that is probed.
#[derive(Debug)]
pub(super) struct Collection {
    /// Its path.
    pub(super) path: String,
    /// The kind of its objects.
    pub(super) kind: String,
    /// Its first list.
    pub(super) base: List,
}

impl Collection {
    /// Returns the name of the object at index `nth`; there are at least [`MIN_OBJECTS`].
    pub(super) fn name(&self, nth: usize) -> String {
        let key = self.base.items.get(nth).map_or("", |(key, _)| key);
        key.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// Returns the first of the [`CANDIDATES`] that is small enough. Each is counted and sampled by a
/// page of three objects before it is read.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn find(requests: &mut Requests) -> Result<Option<Collection>, KubeProbeError> {
    for path in CANDIDATES {
        let sampled = requests.get(&format!("{path}?limit={SAMPLE}")).await;
        let sampled = match sampled.map(|response| (response.body.len() as u64, response)) {
            Ok((bytes, response)) => List::read(response).map(|page| (bytes, page)),
            Err(trouble) => Err(trouble),
        };
        let (bytes, page) = match sampled {
            Ok(sampled) => sampled,
            Err(CheckError::Lost(error)) => return Err(error.into()),
            Err(_) => continue,
        };
        // A server that ignored the limit has sent the whole collection already.
        let total = match (&page.token, page.remaining) {
            (Some(_), None) => continue,
            (_, remaining) => page.items.len() as u64 + remaining.unwrap_or(0),
        };
        let estimate = bytes / (page.items.len() as u64).max(1) * total;
        if !(MIN_OBJECTS..=MAX_OBJECTS).contains(&total) || estimate > MAX_BYTES {
            continue;
        }
        if let Some(found) = look(requests, path).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Lists a collection that is known to be small. Returns `None` if that is not permitted, or if it
/// has too few objects.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn look(
    requests: &mut Requests,
    path: &str,
) -> Result<Option<Collection>, KubeProbeError> {
    let listed = requests.get(path).await.and_then(List::read);
    let base = match listed {
        Ok(base) => base,
        Err(CheckError::Lost(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let kind = base.json["kind"].as_str().unwrap_or_default();
    let kind = kind.strip_suffix("List").unwrap_or(kind).to_owned();
    let is_enough = base.items.len() as u64 >= MIN_OBJECTS;
    Ok(is_enough.then(|| Collection {
        path: path.to_owned(),
        kind,
        base,
    }))
}

/// A namespace that the probe creates, with some objects.
#[derive(Debug)]
pub(super) struct Own {
    api: Api,
    namespaces: Namespaces,
}

impl Own {
    /// Returns a namespace with a unique name; sends nothing.
    pub(super) fn new(endpoint: &KubeEndpoint, run_id: &str) -> Self {
        Self {
            api: Api {
                url: endpoint.url.clone(),
                access: endpoint.access.clone(),
            },
            namespaces: Namespaces::new(run_id, 0, 1),
        }
    }

    /// Returns the path of its collection.
    pub(super) fn collection(&self) -> String {
        let name = self.namespaces.names().first();
        let name = name.map_or("", String::as_str);
        format!("/api/v1/namespaces/{name}/{RESOURCE}")
    }

    /// Creates the namespace and some objects, so that there is something to read.
    ///
    /// # Errors
    /// [`KubeProbeError`] with the API's error.
    pub(super) async fn create(&self, requests: &mut Requests) -> Result<(), KubeProbeError> {
        self.namespaces.create(&self.api).await?;
        let path = self.collection();
        for i in 0..SEEDED_KEYS {
            let parity = if i % 2 == 0 { "even" } else { "odd" };
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("read-{i:03}"), "labels": {"parity": parity, "read": "yes"}},
                "data": {"value": "value"},
            });
            let sent = requests.send(Method::POST, &path, JSON, JSON, object.to_string());
            let refused = match sent.await {
                Ok(response) if response.code == StatusCode::CREATED.as_u16() => continue,
                Ok(response) => response.shown(),
                Err(CheckError::Lost(error)) => return Err(error.into()),
                Err(CheckError::NotTried(why) | CheckError::Broken(why)) => why,
            };
            let refused = KubeError::Body(format!("POST {path}: {refused}"));
            return Err(refused.into());
        }
        Ok(())
    }

    /// Removes the namespace with its objects, within five minutes.
    ///
    /// # Errors
    /// What is left, and how to remove it.
    pub(super) async fn remove(self, progress: &Progress) -> Result<(), KubeProbeError> {
        let phase = progress.phase("removing the namespace", 1, Counted::Namespaces);
        Ok(self.namespaces.remove(&self.api, RESOURCE, &phase).await?)
    }
}
