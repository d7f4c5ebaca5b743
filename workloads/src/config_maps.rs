//! ConfigMaps of any size: real metadata around one value of random letters.

use kube_api::envelope::{self, put_head, sealed_len};
use kube_api::protobuf::{bytes_field_len, put_bytes, put_bytes_header};

use crate::data_set::Version;
use crate::names::{Namespace, TEAMS, ascending, namespaces};
use crate::random::{Stream, below, generator, nth_generator, put_letters, uuid};
use crate::sizes::ObjectSizes;
use crate::template::{Slot, Template};

const JSON: &str = include_str!("../objects/config-map.json");
const API_VERSION: &str = "v1";
const KIND: &str = "ConfigMap";
const NAME: &str = "settings-";
const FIRST_CREATION: i64 = 1_769_904_000;
/// The only key of `data`. The template contains everything before its value.
const DATA_KEY: &[u8] = b"payload";

/// The ConfigMaps of a data set; object numbers are in the order of keys.
#[derive(Debug)]
pub(crate) struct ConfigMaps {
    seed: u64,
    namespaces: Vec<Namespace>,
    per_namespace: u64,
    sizes: ObjectSizes,
    /// For each team and each size, the bytes before the payload, and the payload's length.
    templates: Vec<Vec<(Template, usize)>>,
}

impl ConfigMaps {
    pub(crate) fn new(seed: u64, objects: u64, sizes: ObjectSizes, namespace_count: u32) -> Self {
        let namespaces = namespaces(seed, namespace_count);
        let templates = TEAMS
            .iter()
            .map(|&(team, app)| {
                let namespace = namespaces
                    .iter()
                    .find(|namespace| TEAMS[namespace.team].0 == team);
                let namespace = namespace.map_or(2, |namespace| namespace.name.len());
                let slots = [
                    Slot {
                        name: "name",
                        length: NAME.len() + 10,
                    },
                    Slot {
                        name: "namespace",
                        length: namespace,
                    },
                    Slot {
                        name: "uid",
                        length: 36,
                    },
                ];
                let constants = [("team", team), ("app", app)];
                let metadata =
                    Template::new(&kube_api::schema::CONFIG_MAP, JSON, &constants, &slots);
                let of_size = |size| with_payload(&metadata, size);
                sizes.all().map(of_size).collect()
            })
            .collect();
        let per_namespace = objects.div_ceil(u64::from(namespace_count));
        Self {
            seed,
            namespaces,
            per_namespace,
            sizes,
            templates,
        }
    }

    fn namespace(&self, i: u64) -> &Namespace {
        &self.namespaces[(i / self.per_namespace) as usize]
    }

    fn template(&self, i: u64) -> &(Template, usize) {
        &self.templates[self.namespace(i).team][self.sizes.index_of(i)]
    }

    /// Returns `settings-` and ten letters, with the generator for further values.
    fn name(&self, i: u64) -> (Vec<u8>, rand_xoshiro::Xoshiro256PlusPlus) {
        let mut rng = generator(self.seed, Stream::Objects, i);
        let mut name = NAME.as_bytes().to_vec();
        name.extend_from_slice(&ascending::<10>(
            &mut rng,
            i % self.per_namespace,
            self.per_namespace,
        ));
        (name, rng)
    }

    /// Appends `NAMESPACE/NAME`.
    pub(crate) fn write_key(&self, i: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.namespace(i).name.as_bytes());
        out.push(b'/');
        out.extend_from_slice(&self.name(i).0);
    }

    pub(crate) fn value_len(&self, i: u64) -> usize {
        let (head, payload) = self.template(i);
        head.len() + payload + envelope::TAIL.len()
    }

    pub(crate) fn write_version(&self, i: u64, version: Version, out: &mut Vec<u8>) {
        let Version {
            incarnation,
            change,
        } = version;
        let namespace = self.namespace(i);
        let (name, mut rng) = self.name(i);
        let mut uid = uuid(&mut rng);
        if incarnation > 0 {
            uid = uuid(&mut nth_generator(
                self.seed,
                Stream::Incarnations,
                i,
                incarnation,
            ));
        }
        let created = FIRST_CREATION + below(&mut rng, 30 * 86_400) as i64;
        let (head, payload) = self.template(i);
        head.write(&[&name, namespace.name.as_bytes(), &uid], created, out);
        let mut letters = match change {
            0 => generator(self.seed, Stream::Payload, i),
            nth => nth_generator(self.seed, Stream::Changes, i, nth),
        };
        put_letters(out, &mut letters, *payload);
        out.extend_from_slice(envelope::TAIL);
    }
}

/// Returns the bytes before the payload of an object of `wanted` bytes, and the payload's length.
///
/// Length prefixes grow with the payload, so lengths are tried in descending order. If a prefix
/// grows exactly at the wanted size, no object has that size, and the object is one byte shorter.
fn with_payload(metadata: &Template, wanted: usize) -> (Template, usize) {
    let entry_len = |payload| bytes_field_len(1, DATA_KEY.len()) + bytes_field_len(2, payload);
    let raw_len = |payload| metadata.len() + bytes_field_len(2, entry_len(payload));
    let mut payload = wanted;
    while payload > 0 && sealed_len(API_VERSION, KIND, raw_len(payload)) > wanted {
        payload -= 1;
    }
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    put_head(&mut before, API_VERSION, KIND, raw_len(payload));
    put_bytes_header(&mut behind, 2, entry_len(payload));
    put_bytes(&mut behind, 1, DATA_KEY);
    put_bytes_header(&mut behind, 2, payload);
    (metadata.clone().enclose(&before, &behind), payload)
}
