//! Ends a namespace as its controller would, where there is none: only when nothing at all is in
//! it.
//!
//! What is in a namespace that was ended too early stays in the store, and nobody can delete it any
//! more. So every kind of object that the API has is looked for, and whatever cannot be looked for
//! counts as being there.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Method, StatusCode};
use kube_api::client::KubeError;
use serde_json::{Value, json};

use super::super::client::{Client, JSON};
use super::super::object;

/// The finalizer that is the namespace controller's. Others in the same place are somebody else's.
const CONTROLLERS: &str = "kubernetes";

/// Why a namespace is not ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Hindrance {
    /// Somebody has put something into it.
    #[error("it still holds {0}")]
    Holds(String),
    /// The controller's part is done, and others' is not.
    #[error("finalizers that are not its controller's keep it: {0}")]
    Finalizers(String),
    /// Nobody knows what is in it.
    #[error("what is in it cannot be found out: {0}")]
    Unknown(String),
    /// It may not be ended, or the account in it not be deleted.
    #[error("the API refuses to finalize it: {0}")]
    Refused(String),
}

impl From<KubeError> for Hindrance {
    fn from(error: KubeError) -> Self {
        Self::Unknown(error.to_string())
    }
}

/// Returns whether no controller has written down how far it is with the deletion.
pub(super) fn nobody_looked(namespace: &Value) -> bool {
    let conditions = namespace["status"]["conditions"].as_array();
    namespace["status"]["phase"] == "Terminating" && conditions.is_none_or(Vec::is_empty)
}

/// Ends a namespace that is being deleted and holds nothing. The account that we have made goes
/// now.
///
/// # Errors
/// [`Hindrance`]; then it is as it was, but for our account.
pub(super) async fn end(
    client: &mut Client,
    namespace: Value,
    name: &str,
) -> Result<(), Hindrance> {
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

fn refused(error: KubeError) -> Hindrance {
    Hindrance::Refused(error.to_string())
}

/// Returns a namespace without the controller's finalizer, and with everybody else's.
fn without_controllers(mut namespace: Value) -> Result<Value, Hindrance> {
    let all = namespace["spec"]["finalizers"].as_array();
    let others: Vec<_> = all
        .into_iter()
        .flatten()
        .filter(|finalizer| *finalizer != CONTROLLERS)
        .cloned()
        .collect();
    if all.is_some_and(|all| all.len() == others.len()) && !others.is_empty() {
        return Err(Hindrance::Finalizers(Value::from(others).to_string()));
    }
    namespace["spec"]["finalizers"] = json!(others);
    Ok(namespace)
}

async fn holds_nothing(client: &mut Client, name: &str) -> Result<(), Hindrance> {
    for (version, resource) in listable(client).await? {
        let path = format!("{version}/namespaces/{name}/{resource}?limit=1");
        let list = get(client, &path).await?;
        let items = match list.get("items") {
            Some(Value::Array(items)) => items.len(),
            // Go's empty list.
            Some(Value::Null) => 0,
            _ => return Err(Hindrance::Unknown(format!("{path} is no list"))),
        };
        let goes_on = list["metadata"]["continue"].as_str();
        if items > 0 || goes_on.is_some_and(|token| !token.is_empty()) {
            return Err(Hindrance::Holds(resource));
        }
    }
    Ok(())
}

/// Everything that a namespace may hold: where its version is served, and its name. Of several
/// versions of a group each is here that has it, since one of them may be the only one.
async fn listable(client: &mut Client) -> Result<BTreeSet<(String, String)>, Hindrance> {
    let mut versions = vec!["/api/v1".to_owned()];
    for group in array(&get(client, "/apis").await?, "/apis", "groups")? {
        for version in array(group, "/apis", "versions")? {
            let version = version["groupVersion"].as_str();
            let version = version
                .ok_or_else(|| Hindrance::Unknown("/apis has a version without name".to_owned()))?;
            versions.push(format!("/apis/{version}"));
        }
    }
    let mut found = BTreeSet::new();
    for version in versions {
        for resource in array(&get(client, &version).await?, &version, "resources")? {
            let verbs = resource["verbs"].as_array();
            let is_listed = verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            // A name with a slash is a part of another resource.
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
        return Err(Hindrance::Unknown(nothing.to_owned()));
    }
    Ok(found)
}

async fn get(client: &mut Client, path: &str) -> Result<Value, Hindrance> {
    let good = [StatusCode::OK];
    let nothing = Bytes::new();
    let reply = client.must(&Method::GET, path, JSON, &nothing, &good);
    Ok(reply.await?.json())
}

fn array<'a>(document: &'a Value, path: &str, field: &str) -> Result<&'a Vec<Value>, Hindrance> {
    let found = document[field].as_array();
    found.ok_or_else(|| Hindrance::Unknown(format!("{path} has no {field}")))
}

#[cfg(test)]
mod tests;
