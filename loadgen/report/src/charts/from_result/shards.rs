//! The cost of sharing the objects among N workers, against N.

use super::Subject;
use crate::charts::curves::{CurveChart, CurvePanel};
use crate::quantity::Unit;
use crate::result::{Case, Sharding};

/// A measure of a case: its name, its unit, and the function that reads it.
type Measure = (
    &'static str,
    fn(f64) -> Unit,
    fn(&Case, &Sharding) -> Option<f64>,
);

const MEMORY_OF_A_WORKER: Measure = (
    "memory of the largest worker",
    Unit::of_size,
    |_, shards| shards.worker_memory_max.map(|bytes| bytes as f64),
);

const OF_LISTS: [Measure; 6] = [
    (
        "server CPU, all workers together",
        Unit::of_time,
        |case, _| {
            let server = case.server.as_ref()?;
            server.cpu_s_per_request.map(|s| s * 1e3)
        },
    ),
    (
        "received by the worker with most",
        Unit::of_size,
        |_, shards| Some(shards.bytes_max as f64),
    ),
    ("until the last worker is done", Unit::of_time, |case, _| {
        let latency = case.latency_ms.as_ref()?;
        latency.p50.or(latency.mean)
    }),
    ("CPU of the busiest worker", Unit::of_time, |_, shards| {
        Some(shards.worker_cpu_s_max * 1e3)
    }),
    MEMORY_OF_A_WORKER,
    (
        "server CPU of the most expensive shard by itself",
        Unit::of_time,
        |_, shards| shards.server_cpu_s_max.map(|s| s * 1e3),
    ),
];

const OF_WATCHES: [Measure; 6] = [
    (
        "CPU of the Kubernetes tier while objects are written",
        Unit::of_time,
        |case, _| {
            let server = case.server.as_ref()?;
            let own = server.kube.as_ref();
            let cpu_s = own.map_or(server.cpu_s, |kube| kube.cpu_s);
            cpu_s.map(|s| s * 1e3)
        },
    ),
    (
        "events received by the worker with most",
        Unit::of_size,
        |_, shards| shards.events.as_ref().map(|events| events.bytes_max as f64),
    ),
    (
        "from a write to its event, p99",
        Unit::of_time,
        |case, _| case.latency_ms.as_ref()?.p99,
    ),
    (
        "until the last worker has the state",
        Unit::of_time,
        |_, shards| {
            let synced = shards.synced_ms.as_ref()?;
            synced.p50.or(synced.mean)
        },
    ),
    MEMORY_OF_A_WORKER,
    ("CPU of the busiest worker", Unit::of_time, |_, shards| {
        Some(shards.worker_cpu_s_max * 1e3)
    }),
];

impl Subject<'_> {
    /// Returns the charts of lists by N workers.
    pub(in crate::charts) fn shards(&self) -> Option<CurveChart> {
        self.curves("A whole list by N workers", &OF_LISTS, |shards| {
            shards.events.is_none()
        })
    }

    /// Returns the charts of watches by N workers.
    pub(in crate::charts) fn shard_watches(&self) -> Option<CurveChart> {
        self.curves("Watches of N workers", &OF_WATCHES, |shards| {
            shards.events.is_some()
        })
    }

    fn curves(
        &self,
        title: &str,
        measures: &[Measure],
        is_one: fn(&Sharding) -> bool,
    ) -> Option<CurveChart> {
        let cases = || {
            let counted = self.cases().filter(|case| case.counts());
            let sharded = counted.filter_map(|case| Some((case, case.shards.as_ref()?)));
            sharded.filter(|(_, shards)| is_one(shards))
        };
        let mut names: Vec<String> = Vec::new();
        for (case, _) in cases() {
            let name = name(case);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        // A line with a single number of workers would be a point, which the table contains.
        names.retain(|line| cases().filter(|(case, _)| name(case) == *line).count() > 1);
        if names.is_empty() {
            return None;
        }
        let panels = measures.iter().map(|&(measure, unit, value)| {
            let lines = names.iter().map(|line| {
                let of_line = cases().filter(|(case, _)| name(case) == *line);
                let mut points: Vec<(f64, f64)> = of_line
                    .filter_map(|(case, shards)| {
                        Some((f64::from(shards.workers), value(case, shards)?))
                    })
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points
            });
            CurvePanel {
                name: measure,
                unit,
                lines: lines.collect(),
            }
        });
        // Measures without any value are left out.
        let panels = panels.filter(|panel| panel.lines.iter().any(|line| !line.is_empty()));
        Some(CurveChart {
            title: title.to_owned(),
            subtitle: self.subtitle("lower is better; one worker has everything"),
            panels: panels.collect(),
            names,
        })
    }
}

/// Returns the name of a way to share the objects, without the number of workers.
fn name(case: &Case) -> String {
    let strategy = case.strategy.split(':').next().unwrap_or_default();
    let mut words = vec![strategy.to_owned()];
    words.extend(
        case.kube_options
            .iter()
            .map(|option| option.replace("--", "")),
    );
    words.join(", ")
}
