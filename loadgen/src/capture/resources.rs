//! Finds the resources below a prefix by seeking from each to the next, and counts and samples
//! their objects.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::error::Error;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::RangeRequest;

use crate::safety::census::Census;
use crate::safety::count;
use crate::timeouts::in_time;

/// The most resources that are searched for: a cluster with many custom resources has some
/// hundreds.
const MAX_RESOURCES: usize = 2_000;
/// The number of resources that are sampled: those with the most keys.
const SAMPLED: usize = 8;
/// The number of resources in the scenario: those with the most bytes.
const KEPT: usize = 3;
/// The most namespaces of a resource that are counted.
const MAX_NAMESPACES: u64 = 500;
/// The name under which an apiserver stores nodes.
const NODES: &str = "minions";
/// Names of Kubernetes' own resources. Any other name may reveal whose cluster it is.
const KNOWN: [&str; 22] = [
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "controllerrevisions",
    "cronjobs",
    "daemonsets",
    "deployments",
    "endpointslices",
    "events",
    "horizontalpodautoscalers",
    "ingress",
    "jobs",
    "leases",
    NODES,
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "replicasets",
    "secrets",
    "serviceaccounts",
    "services",
    "statefulsets",
];

/// The objects of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Kubernetes' name of the resource, or `custom-1`, `custom-2` and so on.
    pub name: String,
    /// The name below the prefix, which may reveal whose cluster it is; never shown.
    pub key: String,
    /// The number and sizes of its objects.
    pub census: Census,
    /// The number of namespaces that the objects are in; 1 if they are not namespaced.
    pub namespaces: u64,
}

/// All resources found below a prefix.
#[derive(Debug, Default)]
pub(super) struct Resources {
    pub(super) largest: Vec<Resource>,
    pub(super) other_keys: u64,
    pub(super) nodes: u64,
    /// The number of resources.
    pub(super) count: u64,
}

/// Finds the resources below `prefix`, counts the objects of all and samples those with the most
/// keys.
///
/// # Errors
/// [`Error`] if the endpoint does not respond, or refuses a request.
pub(super) async fn find(
    client: &Client,
    prefix: &str,
    in_use_bytes: Option<u64>,
) -> Result<Resources, Error> {
    let mut counted = Vec::new();
    let mut from = prefix.as_bytes().to_vec();
    let end = prefix_end(prefix.as_bytes());
    while counted.len() < MAX_RESOURCES {
        let Some(key) = first_key(client, &from, &end).await? else {
            break;
        };
        let resource = resource_of(&key, prefix.len());
        from = prefix_end(&resource);
        let keys = in_time(count(client, &resource)).await?;
        counted.push((keys, resource));
    }
    let mut found = Resources {
        count: counted.len() as u64,
        ..Resources::default()
    };
    let nodes = [prefix, NODES, "/"].concat().into_bytes();
    found.nodes = counted
        .iter()
        .find(|(_, resource)| *resource == nodes)
        .map_or(0, |(keys, _)| *keys);
    counted.sort_by_key(|(keys, _)| std::cmp::Reverse(*keys));
    let all: u64 = counted.iter().map(|(keys, _)| keys).sum();
    let mut customs = 0;
    for (_, resource) in counted.into_iter().take(SAMPLED) {
        let census = Census::of_etcd(client, &resource, in_use_bytes).await?;
        let key = &resource[prefix.len()..];
        found.largest.push(Resource {
            name: shown(key, &mut customs),
            key: String::from_utf8_lossy(without_slash(key)).into_owned(),
            namespaces: namespaces(client, &resource).await?,
            census,
        });
    }
    let bytes = |resource: &Resource| resource.census.bytes.unwrap_or(0);
    found
        .largest
        .sort_by_key(|resource| std::cmp::Reverse(bytes(resource)));
    found.largest.truncate(KEPT);
    let kept: u64 = found.largest.iter().map(|one| one.census.keys).sum();
    found.other_keys = all.saturating_sub(kept);
    Ok(found)
}

/// Returns the first key of a range, without its value.
async fn first_key(client: &Client, from: &[u8], end: &[u8]) -> Result<Option<Bytes>, Error> {
    let request = RangeRequest {
        key: Bytes::copy_from_slice(from),
        range_end: Bytes::copy_from_slice(end),
        limit: 1,
        keys_only: true,
        ..RangeRequest::default()
    };
    let answer = in_time(client.kv().range(request)).await?.into_inner();
    Ok(answer.kvs.into_iter().next().map(|kv| kv.key))
}

/// Returns the common prefix of a resource's keys: the first part after `prefix`, or two parts if
/// the first is the name of an API group, as in `acme.io/widgets/`. Returns the whole key if it has
/// no parts.
fn resource_of(key: &[u8], prefix: usize) -> Vec<u8> {
    let rest = &key[prefix..];
    let mut slashes = (0..rest.len()).filter(|&at| rest[at] == b'/');
    let first = slashes.next();
    let is_group = first.is_some_and(|first| rest[..first].contains(&b'.'));
    let end = match is_group {
        true => slashes.next().or(first),
        false => first,
    };
    match end {
        Some(end) => key[..=prefix + end].to_vec(),
        None => key.to_vec(),
    }
}

fn without_slash(key: &[u8]) -> &[u8] {
    key.strip_suffix(b"/").unwrap_or(key)
}

/// Returns the resource's name if Kubernetes chose it, or else a number, so that it does not reveal
/// whose cluster it is.
fn shown(resource: &[u8], customs: &mut u32) -> String {
    let name = without_slash(resource);
    let known = KNOWN.iter().find(|known| known.as_bytes() == name);
    match known {
        Some(known) => (*known).to_owned(),
        None => {
            *customs += 1;
            format!("custom-{customs}")
        }
    }
}

/// Returns the number of namespaces of a resource's keys, found by seeking from each to the next.
/// Stops at [`MAX_NAMESPACES`].
async fn namespaces(client: &Client, resource: &[u8]) -> Result<u64, Error> {
    let end = prefix_end(resource);
    let mut from = resource.to_vec();
    let mut namespaces = 0;
    while namespaces < MAX_NAMESPACES {
        let Some(key) = first_key(client, &from, &end).await? else {
            break;
        };
        let rest = key.get(resource.len()..).unwrap_or_default();
        let Some(slash) = rest.iter().position(|&byte| byte == b'/') else {
            return Ok(1);
        };
        namespaces += 1;
        from = prefix_end(&key[..=resource.len() + slash]);
    }
    Ok(namespaces.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_one_part_of_a_key_or_two_with_a_group() {
        let of = |key: &str| String::from_utf8(resource_of(key.as_bytes(), 10)).expect("text");
        assert_eq!(of("/registry/pods/ns/a"), "/registry/pods/");
        assert_eq!(
            of("/registry/acme.io/widgets/ns/a"),
            "/registry/acme.io/widgets/"
        );
        assert_eq!(of("/registry/ranges"), "/registry/ranges");
        assert_eq!(of("/registry/a.b/c"), "/registry/a.b/");
    }

    #[test]
    fn names_that_somebody_chose_are_numbered() {
        let mut customs = 0;
        assert_eq!(shown(b"pods/", &mut customs), "pods");
        assert_eq!(shown(b"acme.io/widgets/", &mut customs), "custom-1");
        assert_eq!(shown(b"secretive", &mut customs), "custom-2");
    }
}
