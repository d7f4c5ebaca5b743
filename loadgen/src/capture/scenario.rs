//! Writes the scenario file of a captured etcd.

use std::fmt::Write as _;

use report::quantity::Quantity;
use workloads::Tier;

use super::cases::RequestMix;
use super::{Captured, Resource};
use crate::safety::census::Sample;

/// The size of a pod of the built-in kind, in bytes. Captured pods within [`LIKE_PODS`] of it, as a
/// fraction, are represented by such pods.
const POD_BYTES: f64 = 10_100.0;
const LIKE_PODS: f64 = 0.2;
/// The smallest and the largest size of an object: a ConfigMap's metadata, and etcd's limit of a
/// request.
const MIN_BYTES: u64 = 700;
const MAX_BYTES: u64 = 1_500_000;
/// Objects of which the largest have at most so many times the bytes of the smallest are all given
/// the mean size.
const NEARLY_ONE_SIZE: f64 = 1.1;
/// A size that fewer objects than these percent have is left out.
const MIN_PERCENT: f64 = 0.0001;

impl Captured {
    /// Returns a scenario file for `loadgen run`, with the same number of objects of about the same
    /// sizes in the same number of namespaces, and the same requests per second.
    #[must_use]
    pub fn scenario(&self) -> String {
        let mut file = String::from(
            "# Made by `loadgen capture`: how many objects a cluster has and how large they are, and no name of it.\n\n\
             name = \"captured\"\n\
             summary = \"as many objects of about those sizes as a cluster has\"\n\n\
             repeats = 5\n\
             warmup = 1\n\
             first_chunk_streams = 100\n\n\
             [cases]\n\
             etcd = [\"unary\", \"unary-incremental\", \"stream\", \"paged:10000\", \"paged:500\"]\n\
             kube = [\"cached\", \"consistent\", \"paged:500\", \"sharded:4\"]\n",
        );
        file.push_str(&self.etcd_cases());
        file.push_str(&self.kube_cases());
        for resource in &self.resources {
            file.push_str(&self.data_set(resource));
        }
        file
    }

    /// Returns the cases of the requests to the etcd, on the data set with the most bytes.
    fn etcd_cases(&self) -> String {
        let (Some(Ok(rates)), Some(largest)) = (&self.requests, self.resources.first()) else {
            return String::new();
        };
        let mix = RequestMix::of_etcd(rates, self.resource_count);
        let cases = mix.cases(Tier::Etcd, &largest.name);
        if cases.is_empty() {
            return cases;
        }
        let left_out = self.members_left_out();
        let left_out = left_out.map(|left_out| format!("# Of {left_out}.\n"));
        format!(
            "\n# The requests that the etcd received in {}, as if all were for {}: alone, and beside a client that lists all of them.\n\
             # The metrics do not distinguish a read of one key from a list: all are single reads here.\n{}{}",
            Quantity::seconds(rates.over.as_secs_f64()),
            largest.name,
            left_out.unwrap_or_default(),
            cases.trim_start()
        )
    }

    /// Returns the cases of the requests to an apiserver, for each data set that the log has.
    fn kube_cases(&self) -> String {
        let Some(log) = &self.audit_log else {
            return String::new();
        };
        let seconds = log.over.as_secs_f64();
        let mut text = String::new();
        for resource in &self.resources {
            if let Some(requests) = log.resources.get(&resource.key) {
                text.push_str(
                    &RequestMix::of_api(requests, seconds).cases(Tier::Kube, &resource.name),
                );
            }
        }
        if text.is_empty() {
            return text;
        }
        format!(
            "\n# The requests to an apiserver in its audit log of {}, without the lists and watches of a part of the objects.\n{}",
            Quantity::seconds(seconds),
            text.trim_start()
        )
    }

    fn data_set(&self, resource: &Resource) -> String {
        let Resource {
            name,
            census,
            namespaces,
            ..
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
            false => format!("kind = \"config-maps\"\n{}", object_sizes(&census.sample)),
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

/// Returns the fields of a data set whose objects have the sizes of a sample.
fn object_sizes(sample: &Sample) -> String {
    // In percent of the objects. Sizes are ascending, and so equal ones are neighbours.
    let mut sizes: Vec<(u64, f64)> = Vec::new();
    for (size, part) in sample.value_sizes() {
        let bytes = (size.round() as u64).clamp(MIN_BYTES, MAX_BYTES);
        match sizes.last_mut().filter(|(last, _)| *last == bytes) {
            Some((_, percent)) => *percent += part * 100.0,
            None => sizes.push((bytes, part * 100.0)),
        }
    }
    sizes.retain(|(_, percent)| *percent >= MIN_PERCENT);
    let (Some((smallest, _)), Some((largest, _))) = (sizes.first(), sizes.last()) else {
        return format!("object_size = {MIN_BYTES}");
    };
    if *largest as f64 <= *smallest as f64 * NEARLY_ONE_SIZE {
        let sum: f64 = sizes.iter().map(|(size, part)| *size as f64 * part).sum();
        let parts: f64 = sizes.iter().map(|(_, part)| part).sum();
        return format!("object_size = {}", (sum / parts).round());
    }
    let mut text = String::from("object_sizes = [\n");
    for (bytes, percent) in &sizes {
        // Writing to a String cannot fail.
        writeln!(text, "    {{ bytes = {bytes}, weight = {percent:.4} }},").unwrap_or_default();
    }
    text + "]"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use workloads::scenario::LoadsSpec;
    use workloads::{Kind, Scenario};

    use super::*;
    use crate::capture::RequestRates;
    use crate::capture::audit_log::{ApiRequests, AuditLog};
    use crate::safety::census::{Census, SampledPage};

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
            key: name.to_owned(),
            census: Census {
                keys,
                bytes: sample.bytes_of_all(keys),
                sample,
                ..Census::default()
            },
            namespaces: 7,
        }
    }

    fn captured() -> Captured {
        Captured {
            version: "3.7.3".to_owned(),
            round_trip: Duration::from_millis(1),
            resources: vec![
                resource("pods", 150_000, 10_000),
                resource("custom-1", 20, 300),
                resource("events", 5, 2_000_000),
            ],
            other_keys: 3,
            nodes: 5_000,
            resource_count: 10,
            members: (3, 3),
            requests: None,
            audit_log: None,
        }
    }

    /// Returns what was captured with an audit log of a minute with these requests for pods.
    fn with_log_of(pods: ApiRequests) -> Captured {
        let log = AuditLog {
            over: Duration::from_mins(1),
            resources: BTreeMap::from([("pods".to_owned(), pods)]),
            ..AuditLog::default()
        };
        Captured {
            audit_log: Some(log),
            ..captured()
        }
    }

    /// Returns a case's loads, as `NAME: OPERATION`.
    fn loads(case: &LoadsSpec) -> Vec<String> {
        let loads = case.load.iter();
        loads
            .map(|load| format!("{}: {}", load.name, load.operation))
            .collect()
    }

    #[test]
    fn requests_to_the_etcd_become_cases_on_the_largest_data_set() {
        let rates = RequestRates {
            over: Duration::from_secs(10),
            ranges: 120.0,
            creates: 1.0,
            updates: 30.0,
            deletes: 2.0,
            watchers: 45,
            ..RequestRates::default()
        };
        let captured = Captured {
            requests: Some(Ok(rates)),
            ..captured()
        };
        let scenario = Scenario::parse(&captured.scenario(), "captured").expect("a scenario");
        let names: Vec<_> = scenario.loads.iter().map(|case| &case.name[..]).collect();
        assert_eq!(
            names,
            [
                "etcd-requests",
                "etcd-requests-beside-unary",
                "etcd-requests-beside-stream",
                "etcd-requests-beside-paged-500"
            ]
        );
        assert_eq!(
            loads(&scenario.loads[2]),
            [
                "writes: update 30, create 1, delete 1",
                "gets: get",
                "watches: watch",
                "beside: list by stream"
            ]
        );
        assert_eq!(scenario.loads[0].load[2].clients.get(), 5);
        assert!(scenario.cases_on("pods").count() > scenario.cases_on("events").count());
    }

    #[test]
    fn watchers_whose_writes_are_too_few_are_left_out() {
        let pods = ApiRequests {
            gets: 60,
            updates: 20,
            patches: 20,
            watched: Duration::from_secs(180),
            ..ApiRequests::default()
        };
        let captured = Captured {
            requests: Some(Ok(RequestRates {
                ranges: 9.0,
                ..RequestRates::default()
            })),
            members: (3, 1),
            ..with_log_of(pods)
        };
        let text = captured.scenario();
        let scenario = Scenario::parse(&text, "captured").expect("a scenario");
        let last = scenario.loads.last().expect("a case of the API");
        assert_eq!(loads(last), ["gets: get"]);
        assert!(text.contains("# Of 1 of 3 members: reads"), "{text}");
    }

    #[test]
    fn requests_to_an_apiserver_become_a_case_of_each_data_set() {
        let pods = ApiRequests {
            gets: 60,
            patches: 600,
            deletes: 6,
            lists: BTreeMap::from([("cached".to_owned(), 30), ("paged:500".to_owned(), 1)]),
            partial_lists: 1_000,
            watched: Duration::from_secs(180),
            ..ApiRequests::default()
        };
        let captured = with_log_of(pods);
        let scenario = Scenario::parse(&captured.scenario(), "captured").expect("a scenario");
        let [case] = &scenario.loads[..] else {
            panic!("one case: {:?}", scenario.loads);
        };
        assert_eq!((&case.name[..], case.tier), ("pods-requests", Tier::Kube));
        assert_eq!(
            loads(case),
            [
                "writes: patch",
                "gets: get",
                "lists-1: list by cached",
                "watches: watch"
            ],
            "a page a minute and deletes of what nobody creates are left out"
        );
        assert_eq!(case.load[3].clients.get(), 3);
    }

    #[test]
    fn objects_of_different_sizes_stay_different() {
        let mut secrets = resource("secrets", 1_000, 0);
        // 1,000 objects, of which 20 are large, and as many bytes in all.
        let sizes = (0..1_000).map(|i| 76 + if i % 50 == 0 { 400_000 } else { 1_000 + i });
        secrets.census.sample = Sample {
            pages: vec![SampledPage {
                sizes: sizes.collect(),
                key_bytes: 40_000,
                weight: 1_000.0,
            }],
            unread: 0,
        };
        let mean = secrets.census.sample.mean_value().expect("it was read");
        let captured = Captured {
            resources: vec![secrets],
            ..captured()
        };
        let scenario = Scenario::parse(&captured.scenario(), "captured").expect("a scenario");
        let sizes = scenario.data_sets[0].object_sizes.as_ref().expect("sizes");
        assert_eq!(sizes.len(), 11);
        assert_eq!(sizes[10].bytes, 400_000);
        let sum: f64 = sizes.iter().map(|s| f64::from(s.bytes) * s.weight).sum();
        let weights: f64 = sizes.iter().map(|size| size.weight).sum();
        assert!((sum / weights / mean - 1.0).abs() < 0.001, "{sizes:?}");
    }

    #[test]
    fn sizes_of_pages_that_stand_for_few_objects_are_drawn_too() {
        let page = |bytes: u64, weight: f64| SampledPage {
            sizes: vec![bytes + 36; 8],
            key_bytes: 0,
            weight,
        };
        let mut secrets = resource("secrets", 1_000_000, 0);
        secrets.census.sample = Sample {
            pages: vec![page(300, 999_990.0), page(500, 5.0), page(9_000, 10.0)],
            unread: 999_976,
        };
        let captured = Captured {
            resources: vec![secrets],
            ..captured()
        };
        let scenario = Scenario::parse(&captured.scenario(), "captured").expect("a scenario");
        let sizes = scenario.data_sets[0].object_sizes.clone().expect("sizes");
        let bytes: Vec<u32> = sizes.iter().map(|size| size.bytes).collect();
        assert_eq!(bytes, [700, 6_167], "each group has its mean");
        assert!(sizes.iter().all(|size| size.weight > 0.0), "{sizes:?}");
    }

    #[test]
    fn the_file_is_a_scenario_with_as_many_objects_of_that_size() {
        let captured = captured();
        let scenario = Scenario::parse(&captured.scenario(), "captured").expect("a scenario");
        let [pods, custom, events] = &scenario.data_sets[..] else {
            panic!("three data sets: {:?}", scenario.data_sets);
        };
        assert_eq!((pods.kind, pods.objects.get()), (Kind::Pods, 150_000));
        assert_eq!(pods.nodes.map(u32::from), Some(5_000));
        assert_eq!(pods.namespaces.map(u32::from), Some(7));
        assert_eq!((custom.kind, custom.objects.get()), (Kind::ConfigMaps, 20));
        assert_eq!(custom.object_size.map(u64::from), Some(MIN_BYTES));
        assert_eq!(
            events.namespaces.map(u32::from),
            Some(5),
            "no more than objects"
        );
        assert_eq!(events.object_size.map(u64::from), Some(MAX_BYTES));
    }
}
