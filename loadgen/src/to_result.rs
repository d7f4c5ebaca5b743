//! Converts what was recorded, checked and measured to the types of a saved result: the crates that
//! measure and the crate that saves do not depend on one another.

use std::time::Duration;

use load::record::LatencyHistogram;
use load::shards::event_ledger::EventCounts;
use load::verify::Contents;
use report::latency::{self, Latencies};
use report::result::{
    self, Conformance, Disk, MachineLoad, Quantiles, Round, RuleFinding, ShardEvents, Verified,
    series,
};
use workloads::{DataSet, Fingerprint};

use crate::probe::{Document, RuleVerdict};

/// Converts recorded latencies.
#[must_use]
pub fn latencies(recorded: &LatencyHistogram) -> Latencies {
    Latencies::new(recorded.histogram_ns().clone(), recorded.clamped())
}

/// Returns the quantiles of recorded latencies in milliseconds, with null for every quantile for
/// which there are too few values; `None` if nothing was recorded.
#[must_use]
pub fn quantiles_ms(recorded: &LatencyHistogram) -> Option<Quantiles> {
    (recorded.n() > 0).then(|| quantiles_of_ms(recorded, recorded.n()))
}

/// Returns the quantiles of values that come in `groups`: see [`latency::quantiles_of_ms`].
#[must_use]
pub fn quantiles_of_ms(recorded: &LatencyHistogram, groups: u64) -> Quantiles {
    latency::quantiles_of_ms(recorded.histogram_ns(), recorded.clamped(), groups)
}

/// Converts the findings of a probe of a target.
#[must_use]
pub fn conformance(target: &str, document: &Document) -> Conformance {
    let (honoured, others): (Vec<_>, Vec<_>) = document
        .rules
        .iter()
        .partition(|finding| finding.verdict == RuleVerdict::Honoured);
    let others = others.into_iter().map(|finding| RuleFinding {
        rule: finding.rule.to_owned(),
        verdict: finding.verdict.name().to_owned(),
        came: finding.received.clone(),
    });
    Conformance {
        target: target.to_owned(),
        version: document.version.clone(),
        honoured: honoured.iter().map(|f| f.rule.to_owned()).collect(),
        others: others.collect(),
    }
}

/// Returns the description of a generated data set and of its objects.
#[must_use]
pub fn data_set(data: &DataSet, fingerprint: &Fingerprint) -> result::DataSet {
    result::DataSet {
        name: data.spec().name.clone(),
        seed: Some(data.spec().seed),
        objects: fingerprint.objects,
        bytes: fingerprint.bytes,
        has_mixed_sizes: data.spec().object_sizes.is_some(),
        fingerprint: Some(fingerprint.to_string()),
    }
}

/// Converts the contents of a checked list.
#[must_use]
pub fn verified(found: &Contents) -> Verified {
    Verified {
        objects: found.fingerprint.objects,
        bytes: found.fingerprint.bytes,
        fingerprint: found.fingerprint.to_string(),
    }
}

/// Converts the counts of writes that reached their worker. The other work of workers is not known
/// here.
#[must_use]
pub fn shard_events(counts: EventCounts) -> ShardEvents {
    ShardEvents {
        writes: counts.writes,
        delivered: counts.delivered,
        dropped: counts.dropped,
        superfluous: counts.superfluous,
        ..ShardEvents::default()
    }
}

/// Converts the samples of one process during the case with this name.
#[must_use]
pub fn series(case: &str, measured: measure::Series) -> series::Series {
    let samples = measured.samples.into_iter();
    series::Series {
        case: case.to_owned(),
        process: measured.process,
        samples: samples
            .map(|sample| series::Sample {
                elapsed_s: sample.elapsed_s,
                rss: sample.rss,
                anon: sample.anon,
                file: sample.file,
                cpu_s: sample.cpu_s,
                allocated: sample.allocated,
            })
            .collect(),
    }
}

/// Converts one round of the measured phase.
#[must_use]
pub fn round(round: measure::Round) -> Round {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Round {
        ms: ms(round.took),
        server_cpu_ms: round.server_cpu.map(ms),
    }
}

/// Converts the load of the machine.
#[must_use]
pub fn machine_load(load: measure::MachineLoad) -> MachineLoad {
    MachineLoad {
        others_cpu_part: load.others_cpu_part,
        stolen_cpu_part: load.stolen_cpu_part,
        waiting_part: load.waiting_part,
    }
}

/// Converts the disk of the data.
#[must_use]
pub fn disk(disk: measure::Disk) -> Disk {
    Disk {
        path: disk.path,
        file_system: disk.file_system,
        device: disk.device,
        free_bytes: disk.free_bytes,
    }
}
