//! Encodes loads for Prometheus: counters, and a histogram with classic buckets for each load.
//!
//! Counters and buckets can be added up over generators and over time, unlike quantiles.

use std::fmt;

use load::record::Counts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::{Labels, LiveLoad, LiveLoads};

/// Returns a registry with all loads of this process, including those that begin later.
#[must_use]
pub fn registry(loads: LiveLoads) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(LoadCollector(loads)));
    registry
}

#[derive(Debug)]
struct LoadCollector(LiveLoads);

/// A counter: its name without `_total`, its help text, and a function for its value, which is
/// `None` if a load has no such value.
type CounterOf = (
    &'static str,
    &'static str,
    fn(&LiveLoad, &Counts) -> Option<f64>,
);

const COUNTERS: [CounterOf; 4] = [
    (
        "loadgen_requests",
        "Requests or lists that ended, failed ones included",
        |_, counts| Some((counts.ended() + counts.errors()) as f64),
    ),
    (
        "loadgen_request_errors",
        "Requests or lists that failed, were answered wrongly, or not at all",
        |_, counts| Some(counts.errors() as f64),
    ),
    (
        "loadgen_requests_due",
        "Requests or lists that the schedule wanted to be sent by now, on average",
        |load, _| load.due_by(Instant::now()),
    ),
    (
        "loadgen_watch_events",
        "Events that reached watchers",
        |_, counts| Some(counts.events() as f64),
    ),
];

impl Collector for LoadCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let loads: Vec<_> = self.0.all();
        let loads: Vec<_> = loads
            .into_iter()
            .map(|load| (load.counts().read(), load))
            .collect();
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (counts, load) in &loads {
                if let Some(value) = value(load, counts) {
                    let labels = labels(load.labels());
                    ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let mut family = encoder.encode_descriptor(
            "loadgen_request_duration",
            "From the intended start of a request (open loop) or from sending it (closed loop) to its end",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (counts, load) in &loads {
            let labels = labels(load.labels());
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(
                    counts.sum_s(),
                    counts.ended(),
                    &counts.buckets(),
                    None,
                )?;
        }
        Ok(())
    }
}

fn labels(labels: &Labels) -> [(&'static str, &str); 6] {
    [
        ("scenario", &labels.scenario),
        ("data_set", &labels.data_set),
        ("target", &labels.target),
        ("case", &labels.case),
        ("load", &labels.load),
        ("operation", &labels.operation),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use std::time::Duration;

    #[test]
    fn counters_and_buckets_of_each_load_are_shown() {
        let loads = LiveLoads::default();
        let labels = |load: &str| Labels {
            case: "mixed".to_owned(),
            load: load.to_owned(),
            ..Labels::default()
        };
        let gets = loads.add(labels("gets"));
        gets.counts().ended(Duration::from_micros(250));
        gets.counts().ended(Duration::from_millis(20));
        gets.counts().failed(3);
        let watchers = loads.add(labels("watchers"));
        watchers.counts().delivered(7);
        let mut text = String::new();
        encode(&mut text, &registry(loads)).expect("text");
        let value = |name: &str, load: &str| {
            let load = format!("load=\"{load}\"");
            let mut lines = text.lines();
            let line = lines.find(|line| line.starts_with(name) && line.contains(&load));
            line.and_then(|line| line.rsplit(' ').next().map(str::to_owned))
        };
        let value = |name: &str, load: &str| value(name, load).unwrap_or_default();
        assert_eq!(value("loadgen_requests_total{", "gets"), "5.0", "{text}");
        assert_eq!(value("loadgen_request_errors_total{", "gets"), "3.0");
        assert_eq!(value("loadgen_watch_events_total{", "watchers"), "7.0");
        assert_eq!(
            value("loadgen_requests_due_total{", "gets"),
            "",
            "no schedule"
        );
        assert_eq!(
            value("loadgen_request_duration_seconds_count{", "gets"),
            "2"
        );
        let bucket = |le: &str| {
            let le = format!("le=\"{le}\"");
            let mut lines = text.lines();
            let line = lines.find(|line| {
                line.starts_with("loadgen_request_duration_seconds_bucket{")
                    && line.contains(&le)
                    && line.contains("load=\"gets\"")
            });
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        };
        assert_eq!(bucket("0.0001"), Some(0), "{text}");
        assert_eq!(bucket("0.000316"), Some(1));
        assert_eq!(bucket("0.0316"), Some(2));
        assert_eq!(bucket("+Inf"), Some(2));
    }
}
