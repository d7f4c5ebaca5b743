//! Which resources there are below a prefix, found by jumping from one to the next, and what they
//! hold.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::error::Error;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::RangeRequest;

use crate::safety::census::Census;
use crate::safety::count;
use crate::timeouts::in_time;

/// Resources that are looked for at most: a cluster with many custom ones has some hundreds.
const MOST_RESOURCES: usize = 2_000;
/// Resources that are sampled, those with the most keys.
const SAMPLED: usize = 8;
/// Resources of the scenario, those with the most bytes.
const KEPT: usize = 3;
/// Namespaces of a resource that are counted one by one.
const MOST_NAMESPACES: u64 = 500;
/// Where an apiserver keeps nodes.
const NODES: &str = "minions";
/// Names that Kubernetes chose; any other may say whose cluster it is.
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

/// What one resource holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Kubernetes' name, or `custom-1` and so on.
    pub name: String,
    /// Its objects.
    pub census: Census,
    /// Namespaces that they are in; 1 where they have none.
    pub namespaces: u64,
}

/// All that was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) largest: Vec<Resource>,
    pub(super) other_keys: u64,
    pub(super) nodes: u64,
}

/// Finds the resources below `prefix`, counts all and samples those with the most keys.
///
/// # Errors
/// [`Error`] when the endpoint does not respond, or refuses.
pub(super) async fn find(
    client: &Client,
    prefix: &str,
    in_use_bytes: Option<u64>,
) -> Result<Found, Error> {
    let mut counted = Vec::new();
    let mut from = prefix.as_bytes().to_vec();
    let end = prefix_end(prefix.as_bytes());
    while counted.len() < MOST_RESOURCES {
        let Some(key) = first_key(client, &from, &end).await? else {
            break;
        };
        let resource = resource_of(&key, prefix.len());
        from = prefix_end(&resource);
        let keys = in_time(count(client, &resource)).await?;
        counted.push((keys, resource));
    }
    let mut found = Found::default();
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
        found.largest.push(Resource {
            name: shown(&resource[prefix.len()..], &mut customs),
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

/// Returns what all keys of a key's resource begin with: the part behind the prefix, or two where
/// the first is a group's name, as `acme.io/widgets/`. Of a key without parts all of it.
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

/// Returns a name that says nothing of whose cluster it is.
fn shown(resource: &[u8], customs: &mut u32) -> String {
    let name = resource.strip_suffix(b"/").unwrap_or(resource);
    let known = KNOWN.iter().find(|known| known.as_bytes() == name);
    match known {
        Some(known) => (*known).to_owned(),
        None => {
            *customs += 1;
            format!("custom-{customs}")
        }
    }
}

/// Returns how many namespaces a resource's keys are in, by jumping from one to the next; as many
/// as were counted where there are more than [`MOST_NAMESPACES`].
async fn namespaces(client: &Client, resource: &[u8]) -> Result<u64, Error> {
    let end = prefix_end(resource);
    let mut from = resource.to_vec();
    let mut namespaces = 0;
    while namespaces < MOST_NAMESPACES {
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
