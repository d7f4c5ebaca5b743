//! Finalizes a namespace as its controller would, if there is none, and only if nothing at all is
//! in it.
//!
//! Objects in a namespace that is finalized too early stay in the store, and nobody can delete them
//! any more. So every kind of object of the API is searched for, and kinds that cannot be listed
//! count as present.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Method, StatusCode};
use kube_api::client::KubeError;
use kube_api::media_type::JSON;
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::object;

/// The finalizer of the namespace controller. Other finalizers of a namespace belong to others.
const CONTROLLERS: &str = "kubernetes";

/// The reason why a namespace is not finalized.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FinalizeError {
    /// The namespace still holds objects.
    #[error("it still holds {0}")]
    Holds(String),
    /// There are finalizers of others only.
    #[error("finalizers that are not its controller's keep it: {0}")]
    Finalizers(String),
    /// The contents of the namespace cannot be determined.
    #[error("what is in it cannot be found out: {0}")]
    Unknown(String),
    /// The API refuses to finalize the namespace, or to delete the service account in it.
    #[error("the API refuses to finalize it: {0}")]
    Refused(String),
}

impl From<KubeError> for FinalizeError {
    fn from(error: KubeError) -> Self {
        Self::Unknown(error.to_string())
    }
}

/// Returns whether no controller has recorded any progress of the deletion.
pub(super) fn has_no_controller_progress(namespace: &Value) -> bool {
    let conditions = namespace["status"]["conditions"].as_array();
    namespace["status"]["phase"] == "Terminating" && conditions.is_none_or(Vec::is_empty)
}

/// Finalizes a namespace that is being deleted and holds nothing. First deletes the service account
/// that the run created.
///
/// # Errors
/// [`FinalizeError`]; the namespace is unchanged then, except for the service account.
pub(super) async fn end(
    client: &mut Client,
    namespace: Value,
    name: &str,
) -> Result<(), FinalizeError> {
    let ended = without_controllers(namespace)?;
    let path = format!("/api/v1/namespaces/{name}");
    let account = format!("{path}/serviceaccounts/{}", object::ACCOUNT);
    let good = [StatusCode::OK, StatusCode::ACCEPTED, StatusCode::NOT_FOUND];
    client
        .must(&Method::DELETE, &account, JSON, &Bytes::new(), &good)
        .await
        .map_err(refused)?;
    holds_nothing(client, name).await?;
    let body = Bytes::from(ended.to_string());
    let good = [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::CONFLICT];
    let path = format!("{path}/finalize");
    let ended = client.must(&Method::PUT, &path, JSON, &body, &good).await;
    ended.map(drop).map_err(refused)
}

fn refused(error: KubeError) -> FinalizeError {
    FinalizeError::Refused(error.to_string())
}

/// Returns a namespace without the controller's finalizer and with all others.
fn without_controllers(mut namespace: Value) -> Result<Value, FinalizeError> {
    let all = namespace["spec"]["finalizers"].as_array();
    let others: Vec<_> = all
        .into_iter()
        .flatten()
        .filter(|finalizer| *finalizer != CONTROLLERS)
        .cloned()
        .collect();
    if all.is_some_and(|all| all.len() == others.len()) && !others.is_empty() {
        return Err(FinalizeError::Finalizers(Value::from(others).to_string()));
    }
    namespace["spec"]["finalizers"] = json!(others);
    Ok(namespace)
}

async fn holds_nothing(client: &mut Client, name: &str) -> Result<(), FinalizeError> {
    for (version, resource) in listable(client).await? {
        let path = format!("{version}/namespaces/{name}/{resource}?limit=1");
        let list = get(client, &path).await?;
        let items = match list.get("items") {
            Some(Value::Array(items)) => items.len(),
            // An empty list as Go encodes it.
            Some(Value::Null) => 0,
            _ => return Err(FinalizeError::Unknown(format!("{path} is no list"))),
        };
        let goes_on = list["metadata"]["continue"].as_str();
        if items > 0 || goes_on.is_some_and(|token| !token.is_empty()) {
            return Err(FinalizeError::Holds(resource));
        }
    }
    Ok(())
}

/// Returns every listable resource that a namespace may hold: the path of its version, and its
/// name. All versions of a group are included, since a resource may be in one of them only.
async fn listable(client: &mut Client) -> Result<BTreeSet<(String, String)>, FinalizeError> {
    let mut versions = vec!["/api/v1".to_owned()];
    for group in array(&get(client, "/apis").await?, "/apis", "groups")? {
        for version in array(group, "/apis", "versions")? {
            let version = version["groupVersion"].as_str();
            let version = version.ok_or_else(|| {
                FinalizeError::Unknown("/apis has a version without name".to_owned())
            })?;
            versions.push(format!("/apis/{version}"));
        }
    }
    let mut found = BTreeSet::new();
    for version in versions {
        for resource in array(&get(client, &version).await?, &version, "resources")? {
            let verbs = resource["verbs"].as_array();
            let is_listed = verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            // A name with a slash is a subresource.
            if let Some(name) = resource["name"].as_str().filter(|name| !name.contains('/'))
                && resource["namespaced"] == true
                && is_listed
            {
                found.insert((version.clone(), name.to_owned()));
            }
        }
    }
    if found.is_empty() {
        let nothing = "the API names nothing that a namespace could hold";
        return Err(FinalizeError::Unknown(nothing.to_owned()));
    }
    Ok(found)
}

async fn get(client: &mut Client, path: &str) -> Result<Value, FinalizeError> {
    let good = [StatusCode::OK];
    let nothing = Bytes::new();
    let reply = client.must(&Method::GET, path, JSON, &nothing, &good);
    Ok(reply.await?.json())
}

fn array<'a>(
    document: &'a Value,
    path: &str,
    field: &str,
) -> Result<&'a Vec<Value>, FinalizeError> {
    let found = document[field].as_array();
    found.ok_or_else(|| FinalizeError::Unknown(format!("{path} has no {field}")))
}

#[cfg(test)]
mod tests;
