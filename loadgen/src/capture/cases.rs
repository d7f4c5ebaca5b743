//! Writes the cases of a captured mix of requests: the requests alone, and beside a client that
//! lists all objects again and again.

use std::fmt::Write as _;

use workloads::{Strategy, Tier};

use super::audit_log::ApiRequests;
use super::requests::RequestRates;

/// The rates below which small requests (at random times) and lists (evenly spaced) are left out,
/// per second: a case in which none of them is sent would be invalid.
const MIN_RATE: f64 = 0.5;
const MIN_LISTS: f64 = 0.1;
/// The duration of a case.
const DURATION: &str = "20s";
/// The most watchers of a case.
const MAX_WATCHERS: u64 = 1_000;
/// The concurrent lists of a schedule; further ones wait.
const CONCURRENT_LISTS: u32 = 4;
/// The strategies of the list beside the requests of the etcd tier.
const BESIDE: [&str; 3] = ["unary", "stream", "paged:500"];

/// The requests of one resource, per second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RequestMix {
    pub(super) gets: f64,
    pub(super) creates: f64,
    pub(super) updates: f64,
    pub(super) patches: f64,
    pub(super) deletes: f64,
    pub(super) keep_alives: f64,
    /// Lists by strategy.
    pub(super) lists: Vec<(String, f64)>,
    pub(super) watchers: u64,
}

impl RequestMix {
    /// Returns the requests to an etcd, as if all were for one resource, with the watchers of one
    /// of its `resources`.
    pub(super) fn of_etcd(rates: &RequestRates, resources: u64) -> Self {
        Self {
            gets: rates.ranges,
            creates: rates.creates,
            updates: rates.updates,
            deletes: rates.deletes,
            keep_alives: rates.keep_alives,
            lists: vec![("stream".to_owned(), rates.range_streams)],
            watchers: rates.watchers.div_ceil(resources.max(1)),
            ..Self::default()
        }
    }

    /// Returns the requests for one resource in an audit log over `seconds`.
    pub(super) fn of_api(requests: &ApiRequests, seconds: f64) -> Self {
        let rate = |count: u64| count as f64 / seconds;
        let lists = requests.lists.iter();
        Self {
            gets: rate(requests.gets),
            creates: rate(requests.creates),
            updates: rate(requests.updates),
            patches: rate(requests.patches),
            deletes: rate(requests.deletes),
            keep_alives: 0.0,
            lists: lists
                .map(|(by, count)| (by.clone(), rate(*count)))
                .collect(),
            watchers: (requests.watched.as_secs_f64() / seconds).round() as u64,
        }
    }

    /// Returns the cases on a data set as part of a scenario file; empty if there is no request to
    /// speak of.
    pub(super) fn cases(&self, tier: Tier, data_set: &str) -> String {
        let loads = self.loads(tier);
        if loads.is_empty() {
            return String::new();
        }
        let name = match tier {
            Tier::Etcd => "etcd-requests".to_owned(),
            Tier::Kube => format!("{data_set}-requests"),
        };
        let mut text = case(&name, tier, data_set, &loads);
        let beside: &[&str] = match tier {
            Tier::Etcd => &BESIDE,
            Tier::Kube => &[],
        };
        for strategy in beside {
            let list = format!(
                "{{ name = \"beside\", operation = {{ list = \"{strategy}\" }}, checked = false }}"
            );
            let name = format!("{name}-beside-{}", strategy.replace(':', "-"));
            let loads = [&loads[..], &[list]].concat();
            text.push_str(&case(&name, tier, data_set, &loads));
        }
        text
    }

    /// Returns the loads, one line each.
    fn loads(&self, tier: Tier) -> Vec<String> {
        let on = match tier {
            Tier::Etcd => ", connections = 2",
            Tier::Kube => ", tier = \"kube\"",
        };
        let load = |name: &str, operation: &str, rate: f64, keys: &str| {
            let rate = rounded(rate);
            format!(
                "{{ name = \"{name}\", operation = {operation}, arrivals = {{ poisson = {rate} }}{keys}{on} }}"
            )
        };
        let mut loads = Vec::new();
        let weights = self.weights();
        let writes: f64 = weights.iter().map(|(_, rate)| rate).sum();
        if writes >= MIN_RATE {
            let written = weights
                .iter()
                .map(|(name, rate)| format!("{name} = {}", rounded(*rate)));
            let operation = format!("{{ {} }}", written.collect::<Vec<_>>().join(", "));
            loads.push(load(
                "writes",
                &operation,
                writes,
                ", keys = { zipf = 0.8 }",
            ));
        }
        if self.gets >= MIN_RATE {
            loads.push(load(
                "gets",
                "\"get\"",
                self.gets,
                ", keys = { latest = 0.99 }",
            ));
        }
        if self.keep_alives >= MIN_RATE {
            loads.push(load(
                "keep-alives",
                "\"lease-keep-alive\"",
                self.keep_alives,
                "",
            ));
        }
        for (nth, (strategy, rate)) in (1..).zip(&self.lists) {
            let is_known = strategy.parse::<Strategy>().is_ok();
            let rate = rounded(*rate);
            if is_known && rate >= MIN_LISTS {
                loads.push(format!(
                    "{{ name = \"lists-{nth}\", operation = {{ list = \"{strategy}\" }}, arrivals = {{ constant = {rate} }}, clients = {CONCURRENT_LISTS} }}"
                ));
            }
        }
        // Watchers need a write that they receive.
        let is_received = |name: &str| match tier {
            Tier::Etcd => name == "update",
            Tier::Kube => name != "delete",
        };
        if self.watchers > 0 && weights.iter().any(|(name, _)| is_received(name)) {
            let watchers = self.watchers.min(MAX_WATCHERS);
            loads.push(format!(
                "{{ name = \"watches\", operation = \"watch\", clients = {watchers}{on} }}"
            ));
        }
        loads
    }

    /// Returns the writes that are frequent enough, with their rates. A load deletes only what it
    /// has created.
    fn weights(&self) -> Vec<(&'static str, f64)> {
        let mut weights = vec![
            ("update", self.updates),
            ("patch", self.patches),
            ("create", self.creates),
        ];
        if self.creates >= MIN_RATE {
            weights.push(("delete", self.deletes.min(self.creates)));
        }
        weights.retain(|(_, rate)| *rate >= MIN_RATE);
        weights
    }
}

/// Returns a rate with three significant digits.
fn rounded(rate: f64) -> f64 {
    format!("{rate:.2e}").parse().unwrap_or(rate)
}

fn case(name: &str, tier: Tier, data_set: &str, loads: &[String]) -> String {
    let mut text = format!("\n[[case]]\nname = \"{name}\"\n");
    // Writing to a String cannot fail.
    if tier == Tier::Kube {
        text.push_str("tier = \"kube\"\n");
    }
    writeln!(
        text,
        "data_sets = [\"{data_set}\"]\nduration = \"{DURATION}\"\nload = ["
    )
    .unwrap_or_default();
    for load in loads {
        writeln!(text, "    {load},").unwrap_or_default();
    }
    text.push_str("]\n");
    text
}
