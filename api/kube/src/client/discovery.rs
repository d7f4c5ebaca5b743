//! Finds the resource type that a name means, from the server's discovery documents.
//!
//! As in kubectl, a name without a group means the core group's resource if there is one. If
//! several other groups have the resource, the name must include the group. Of a group's versions,
//! the preferred one is used, unless the name includes a version or only another version has the
//! resource.
//!
//! Costs two requests if the server supports aggregated discovery (KEP-3352), otherwise one more
//! for each version of the groups that the name may refer to.

mod documents;
mod error;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;

use self::documents::{Group, Resource, Served};
pub use self::error::DiscoveryError;
use super::body::read_whole;
use super::connection::{Connection, expect_success};
use super::error::KubeError;
use crate::api_resource::{ApiResource, list_kind};
use crate::envelope;
use crate::group_version_resource::GroupVersionResource;
use crate::media_type::JSON;
use crate::resource_name::{Reading, ResourceName};

/// Maximum size of a list of one object, bytes.
const LIST_BYTES: usize = 64 << 20;

/// Returns the resource type that a name means on this server. The result assumes protobuf and the
/// usual name of the list kind, which discovery does not report; [`probe_lists`] corrects both.
///
/// # Errors
/// [`DiscoveryError`] when the server has no such resource or several, or when it cannot be listed.
pub async fn discover(
    connection: &mut Connection,
    name: &ResourceName,
) -> Result<ApiResource, DiscoveryError> {
    let mut served = Served::read(connection).await?;
    let readings = name.readings();
    let may_be_of = |group: &str| {
        let mut readings = readings.iter();
        readings.any(|reading| reading.group.is_none_or(|named| named == group))
    };
    served.fill(connection, may_be_of).await?;
    if let Some(found) = choose(name, &served.groups)? {
        return Ok(found);
    }
    // A suggestion needs the resources of all groups.
    served.fill(connection, |_| true).await?;
    Err(DiscoveryError::Unknown {
        name: name.clone(),
        suggestion: suggestion(&readings, &served.groups),
        silent: served.silent,
    })
}

/// A resource in one version of its group, and how well the name matches it (0 is best).
struct Match<'s> {
    rank: u8,
    group: &'s str,
    version: &'s str,
    resource: &'s Resource,
}

impl Match<'_> {
    fn is_listable(&self) -> bool {
        self.resource.has_verb("list")
    }

    /// Returns the resource's name with its group.
    fn qualified(&self) -> String {
        qualified(self.group, self.resource)
    }

    fn found(&self) -> ApiResource {
        let resource = self.resource;
        ApiResource {
            name: GroupVersionResource::new(self.group, self.version, &resource.name),
            kind: resource.kind.clone(),
            list_kind: list_kind(&resource.kind),
            is_namespaced: resource.is_namespaced,
            is_watchable: resource.has_verb("watch"),
            has_protobuf: true,
        }
    }
}

/// Returns the resource for the first reading of a name that matches any; `None` if none does.
fn choose(name: &ResourceName, groups: &[Group]) -> Result<Option<ApiResource>, DiscoveryError> {
    for reading in name.readings() {
        let fitting = groups.iter().filter_map(|group| best_of(group, reading));
        let mut fitting: Vec<_> = fitting.collect();
        let best = fitting.iter().map(|found| found.rank).min();
        fitting.retain(|found| Some(found.rank) == best);
        let of_core = fitting.iter().find(|found| found.group.is_empty());
        let listable: Vec<_> = fitting.iter().filter(|found| found.is_listable()).collect();
        let chosen = match (of_core, &listable[..]) {
            (Some(core), _) => core,
            (None, [only]) => only,
            (None, [_, _, ..]) => {
                return Err(DiscoveryError::Ambiguous {
                    name: name.clone(),
                    candidates: listable.iter().map(|found| found.qualified()).collect(),
                });
            }
            (None, []) => match fitting.first() {
                Some(first) => first,
                None => continue,
            },
        };
        return match chosen.is_listable() {
            true => Ok(Some(chosen.found())),
            false => Err(DiscoveryError::NotListable {
                name: chosen.qualified(),
                verbs: chosen.resource.verbs.clone(),
            }),
        };
    }
    Ok(None)
}

/// Returns the resource of a group that matches a reading best, in the first version that has it.
fn best_of<'s>(group: &'s Group, reading: Reading<'_>) -> Option<Match<'s>> {
    if reading.group.is_some_and(|named| named != group.name) {
        return None;
    }
    let versions = group.versions.iter();
    let versions = versions.filter(|v| reading.version.is_none_or(|named| named == v.name));
    let matches = versions.flat_map(|version| {
        let resources = version.resources.iter().flatten();
        resources.filter_map(|resource| {
            Some(Match {
                rank: resource.rank(reading.resource)?,
                group: &group.name,
                version: &version.name,
                resource,
            })
        })
    });
    // Returns the first of several equal minima.
    matches.min_by_key(|found| found.rank)
}

/// Returns the listable resource whose name is most similar to a name that matches none; `None` if
/// no name is similar enough.
fn suggestion(readings: &[Reading<'_>], groups: &[Group]) -> Option<String> {
    let wanted = readings.last()?;
    let with_group = |resource: &str, group: Option<&str>| match group {
        None | Some("") => resource.to_owned(),
        Some(group) => format!("{resource}.{group}"),
    };
    let typed = with_group(wanted.resource, wanted.group);
    let resources = groups.iter().flat_map(|group| {
        let resources = group
            .versions
            .iter()
            .flat_map(|v| v.resources.iter().flatten());
        let listable = resources.filter(|resource| resource.has_verb("list"));
        listable.map(|resource| (qualified(&group.name, resource), resource))
    });
    let distance = |name: &str, resource: &Resource| match wanted.group {
        // A name without a group is compared without groups.
        None => strsim::damerau_levenshtein(wanted.resource, &resource.name),
        Some(_) => strsim::damerau_levenshtein(&typed, name),
    };
    let distances = resources.map(|(name, resource)| (distance(&name, resource), name));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= (typed.len() / 3).max(2)).then_some(nearest)
}

fn qualified(group: &str, resource: &Resource) -> String {
    match group {
        "" => resource.name.clone(),
        group => format!("{}.{group}", resource.name),
    }
}

/// Reads a list of one object and records in `resource` the kind of lists and whether they are
/// available in protobuf. Discovery documents contain neither.
///
/// # Errors
/// [`KubeError`] when the server cannot be reached or refuses the request.
pub async fn probe_lists(
    connection: &mut Connection,
    resource: &mut ApiResource,
    namespace: Option<&str>,
) -> Result<(), KubeError> {
    let path = format!("{}?limit=1", resource.name.collection(namespace));
    let not_a_list = |why: &dyn std::fmt::Display| KubeError::Body(format!("{path}: {why}"));
    for accept in [envelope::MEDIA_TYPE, JSON] {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let response = connection.send(Method::GET, &path, headers, Bytes::new());
        let response = response.await?;
        if accept != JSON && response.status() == StatusCode::NOT_ACCEPTABLE {
            // Read to the end, so that the connection can be used again.
            read_whole(response.into_body(), LIST_BYTES).await?;
            continue;
        }
        let response = expect_success(Method::GET, &path, response).await?;
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let is_protobuf = content_type.is_some_and(|text| text.starts_with(envelope::MEDIA_TYPE));
        let body = read_whole(response.into_body(), LIST_BYTES).await?;
        resource.has_protobuf = is_protobuf;
        resource.list_kind = if is_protobuf {
            let (_, kind) = envelope::type_meta(&body).map_err(|e| not_a_list(&e))?;
            String::from_utf8_lossy(kind).into_owned()
        } else {
            #[derive(Deserialize)]
            struct List {
                kind: String,
            }
            let list: List = serde_json::from_slice(&body).map_err(|e| not_a_list(&e))?;
            list.kind
        };
        return Ok(());
    }
    Err(not_a_list(&"neither in protobuf nor in JSON"))
}

#[cfg(test)]
mod tests;
