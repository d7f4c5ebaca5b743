//! Writes the scenario file of a captured etcd.

use std::fmt::Write as _;

use super::{Captured, Resource};

/// The size of a pod of the built-in kind, in bytes. Captured pods within [`LIKE_PODS`] of it, as a
/// fraction, are represented by such pods.
const POD_BYTES: f64 = 10_100.0;
const LIKE_PODS: f64 = 0.2;
/// The smallest and the largest size of an object: a ConfigMap's metadata, and etcd's limit of a
/// request.
const LEAST_BYTES: u64 = 700;
const MOST_BYTES: u64 = 1_500_000;

impl Captured {
    /// Returns a scenario file for `loadgen run`, with the same number of objects of about the same
    /// size in the same number of namespaces.
    #[must_use]
    pub fn scenario(&self) -> String {
        let mut file = String::from(
            "# Made by `loadgen capture`: how many objects a cluster has and how large they are, and no name of it.\n\n\
             name = \"captured\"\n\
             summary = \"as many objects of about that size as a cluster has\"\n\n\
             repeats = 5\n\
             warmup = 1\n\
             first_chunk_streams = 100\n\n\
             [cases]\n\
             etcd = [\"unary\", \"unary-incremental\", \"stream\", \"paged:10000\", \"paged:500\"]\n\
             kube = [\"cached\", \"consistent\", \"paged:500\", \"sharded:4\"]\n",
        );
        for resource in &self.resources {
            file.push_str(&self.data_set(resource));
        }
        file
    }

    fn data_set(&self, resource: &Resource) -> String {
        let Resource {
            name,
            census,
            namespaces,
        } = resource;
        let sizes = |q| census.sample.quantile(q).unwrap_or(0);
        let value = census.sample.mean_value().unwrap_or(0.0);
        let objects = census.keys.max(1);
        let mut text = format!(
            "\n# Of a list: half of the objects have at most {} bytes, nine of ten {}, the largest seen {}.\n\
             [[data_set]]\n\
             name = \"{name}\"\n",
            sizes(0.5),
            sizes(0.9),
            sizes(1.0)
        );
        let is_pods = name == "pods" && (value - POD_BYTES).abs() < LIKE_PODS * POD_BYTES;
        let kind = match is_pods {
            true => format!("kind = \"pods\"\nnodes = {}", self.nodes.max(1)),
            false => {
                let size = (value.round() as u64).clamp(LEAST_BYTES, MOST_BYTES);
                format!("kind = \"config-maps\"\nobject_size = {size}")
            }
        };
        // Each namespace holds at least one object.
        let namespaces = (*namespaces).min(objects);
        // Writing to a String cannot fail.
        write!(
            text,
            "{kind}\nobjects = {objects}\nnamespaces = {namespaces}\nseed = 1\n"
        )
        .unwrap_or_default();
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use workloads::{Kind, Scenario};

    use super::*;
    use crate::safety::census::{Census, Sample, SampledPage};

    fn resource(name: &str, keys: u64, bytes: u64) -> Resource {
        let page = SampledPage {
            sizes: vec![bytes + 36 + 40],
            key_bytes: 40,
            weight: keys as f64,
        };
        let sample = Sample {
            pages: vec![page],
            unread: keys - 1,
        };
        Resource {
            name: name.to_owned(),
            census: Census {
                keys,
                bytes: sample.bytes_of_all(keys),
                sample,
            },
            namespaces: 7,
        }
    }

    #[test]
    fn the_file_is_a_scenario_with_as_many_objects_of_that_size() {
        let captured = Captured {
            version: "3.7.3".to_owned(),
            round_trip: Duration::from_millis(1),
            resources: vec![
                resource("pods", 150_000, 10_000),
                resource("custom-1", 20, 300),
                resource("events", 5, 2_000_000),
            ],
            other_keys: 3,
            nodes: 5_000,
        };
        let scenario = Scenario::parse(&captured.scenario(), "captured").expect("a scenario");
        let [pods, custom, events] = &scenario.data_sets[..] else {
            panic!("three data sets: {:?}", scenario.data_sets);
        };
        assert_eq!((pods.kind, pods.objects.get()), (Kind::Pods, 150_000));
        assert_eq!(pods.nodes.map(u32::from), Some(5_000));
        assert_eq!(pods.namespaces.map(u32::from), Some(7));
        assert_eq!((custom.kind, custom.objects.get()), (Kind::ConfigMaps, 20));
        assert_eq!(custom.object_size.map(u64::from), Some(LEAST_BYTES));
        assert_eq!(
            events.namespaces.map(u32::from),
            Some(5),
            "no more than objects"
        );
        assert_eq!(events.object_size.map(u64::from), Some(MOST_BYTES));
    }
}
