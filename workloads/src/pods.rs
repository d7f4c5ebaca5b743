//! Generates pods as the apiserver of a busy cluster stores them: about 10.1 KB of protobuf each,
//! 14.7 KB as JSON, half of it `managedFields`.
//!
//! One template per team is encoded once; a pod is a copy with its own names, UID, addresses, times
//! and container IDs, so that compression and caches do not profit from identical pods.

use crate::data_set::Version;
use crate::names::{Namespace, TEAMS, ascending, namespaces, node};
use crate::random::{Stream, below, generator, nth_generator, put_hex, uuid};
use crate::template::{Slot, Template};

const JSON: &str = include_str!("../objects/pod.json");

/// Pods per ReplicaSet. They share its hash and owner.
const REPLICAS: u64 = 100;

/// The start of the range of creation times: 30 days from 2026-02-01 on.
const FIRST_CREATION: i64 = 1_769_904_000;
const CREATION_SPAN: u64 = 30 * 86_400;

/// The pods of a data set; object numbers are in the order of keys.
#[derive(Debug)]
pub(crate) struct Pods {
    seed: u64,
    namespaces: Vec<Namespace>,
    per_namespace: u64,
    nodes: Vec<String>,
    templates: Vec<Template>,
}

/// The ReplicaSet of a pod, and the pod's position in it.
struct ReplicaPlace<'a> {
    namespace: &'a Namespace,
    hash: [u8; 10],
    /// Position in the ReplicaSet.
    replica: u64,
    rng: rand_xoshiro::Xoshiro256PlusPlus,
}

impl Pods {
    pub(crate) fn new(seed: u64, objects: u64, namespace_count: u32, node_count: u32) -> Self {
        let nodes: Vec<_> = (0..u64::from(node_count)).map(|i| node(seed, i)).collect();
        let namespaces = namespaces(seed, namespace_count);
        let templates = TEAMS
            .iter()
            .map(|(team, app)| {
                let namespace = namespaces
                    .iter()
                    .find(|namespace| TEAMS[namespace.team].0 == *team);
                let slot = |name, length| Slot { name, length };
                let slots = [
                    slot("pod", app.len() + 17),
                    slot(
                        "namespace",
                        namespace.map_or(2, |namespace| namespace.name.len()),
                    ),
                    slot("rs", 10),
                    slot("uid", 36),
                    slot("rsuid", 36),
                    slot("node", nodes[0].len()),
                    slot("podip", 14),
                    slot("hostip", 14),
                    slot("token", 5),
                    slot("checksum", 64),
                    slot("sandbox", 64),
                    slot("c0", 64),
                    slot("c1", 64),
                    slot("c2", 64),
                    slot("c3", 64),
                ];
                Template::new(
                    &kube_api::schema::POD,
                    JSON,
                    &[("team", team), ("app", app)],
                    &slots,
                )
                .seal("v1", "Pod")
            })
            .collect();
        let per_namespace = objects.div_ceil(u64::from(namespace_count));
        Self {
            seed,
            namespaces,
            per_namespace,
            nodes,
            templates,
        }
    }

    fn place(&self, i: u64) -> ReplicaPlace<'_> {
        let (space, in_space) = (i / self.per_namespace, i % self.per_namespace);
        let (group, replica) = (in_space / REPLICAS, in_space % REPLICAS);
        let groups = self.per_namespace.div_ceil(REPLICAS);
        let mut rng = generator(self.seed, Stream::Groups, space * groups + group);
        let hash = ascending(&mut rng, group, groups);
        ReplicaPlace {
            namespace: &self.namespaces[space as usize],
            hash,
            replica,
            rng,
        }
    }

    /// Appends `NAMESPACE/NAME`.
    pub(crate) fn write_key(&self, i: u64, out: &mut Vec<u8>) {
        let place = self.place(i);
        let mut rng = generator(self.seed, Stream::Objects, i);
        out.extend_from_slice(place.namespace.name.as_bytes());
        out.push(b'/');
        put_pod_name(&place, &mut rng, out);
    }

    pub(crate) fn value_len(&self, i: u64) -> usize {
        self.templates[self.namespaces[(i / self.per_namespace) as usize].team].len()
    }

    pub(crate) fn write_version(&self, i: u64, version: Version, out: &mut Vec<u8>) {
        let Version {
            incarnation,
            change,
        } = version;
        let mut place = self.place(i);
        let mut rng = generator(self.seed, Stream::Objects, i);
        let mut name = Vec::with_capacity(48);
        put_pod_name(&place, &mut rng, &mut name);
        let token = &name[name.len() - 5..];

        let owner = uuid(&mut place.rng);
        let mut checksum = [0; 64];
        put_hex(&mut checksum, &mut place.rng);
        let rollout = FIRST_CREATION + below(&mut place.rng, CREATION_SPAN) as i64;

        let mut uid = uuid(&mut rng);
        if incarnation > 0 {
            uid = uuid(&mut nth_generator(
                self.seed,
                Stream::Incarnations,
                i,
                incarnation,
            ));
        }
        if change > 0 {
            // The change is to an annotation, like one that a rollout's controller writes.
            let mut changes = nth_generator(self.seed, Stream::Changes, i, change);
            put_hex(&mut checksum, &mut changes);
        }
        let mut ids = [[0; 64]; 5];
        for id in &mut ids {
            put_hex(id, &mut rng);
        }
        let created = rollout + below(&mut rng, 600) as i64;

        // Multiplying by a prime spreads consecutive pods over the nodes and fills all nodes
        // equally.
        let node = (u128::from(i) * 1_000_003 % self.nodes.len() as u128) as u64;
        let slot = i / self.nodes.len() as u64;
        let pod_ip = address(b"10.100.100.100", node / 155, node, slot);
        let host_ip = address(b"10.100.100.100", 154, node / 155, node);

        let values: [&[u8]; 15] = [
            &name,
            place.namespace.name.as_bytes(),
            &place.hash,
            &uid,
            &owner,
            self.nodes[node as usize].as_bytes(),
            &pod_ip,
            &host_ip,
            token,
            &checksum,
            &ids[4],
            &ids[0],
            &ids[1],
            &ids[2],
            &ids[3],
        ];
        self.templates[place.namespace.team].write(&values, created, out);
    }
}

fn put_pod_name(
    place: &ReplicaPlace<'_>,
    rng: &mut rand_xoshiro::Xoshiro256PlusPlus,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(TEAMS[place.namespace.team].1.as_bytes());
    out.push(b'-');
    out.extend_from_slice(&place.hash);
    out.push(b'-');
    out.extend_from_slice(&ascending::<5>(rng, place.replica, REPLICAS));
}

/// Returns an IPv4 address of 14 characters: each of the last three bytes has three digits, from
/// 100 to 254.
fn address(template: &[u8; 14], a: u64, b: u64, c: u64) -> [u8; 14] {
    let mut out = *template;
    for (at, value) in [(3, a), (7, b), (11, c)] {
        let value = 100 + value % 155;
        out[at] = b'0' + (value / 100) as u8;
        out[at + 1] = b'0' + (value / 10 % 10) as u8;
        out[at + 2] = b'0' + (value % 10) as u8;
    }
    out
}
