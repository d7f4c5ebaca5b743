//! The content of `/metrics` for both tiers: the registry, and metrics of the process and its
//! allocator.

use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Metric, Registry};

/// Media type of [`encode`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns a registry with the metrics of the process and its allocator.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessCollector));
    registry
}

/// Returns the registry as OpenMetrics text.
pub fn encode(registry: &Registry) -> String {
    let mut out = String::new();
    match prometheus_client::encoding::text::encode(&mut out, registry) {
        Ok(()) => out,
        Err(e) => format!("# encoding failed: {e}\n"),
    }
}

/// Encodes one gauge without labels from a collector.
///
/// # Errors
/// The encoder's.
pub fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: i64,
) -> Result<(), std::fmt::Error> {
    one(encoder, name, help, &ConstGauge::new(value))
}

/// Encodes one counter without labels from a collector; `name` without `_total`.
///
/// # Errors
/// The encoder's.
pub fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> Result<(), std::fmt::Error> {
    one(encoder, name, help, &ConstCounter::new(value))
}

fn one(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl Metric,
) -> Result<(), std::fmt::Error> {
    let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
    metric.encode(encoder)
}

/// The allocator's statistics, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocatorStats {
    /// Allocated by the program.
    pub allocated: usize,
    /// In pages with at least one allocation.
    pub active: usize,
    /// Resident.
    pub resident: usize,
}

impl AllocatorStats {
    /// Reads the current statistics; `None` with another allocator.
    pub fn read() -> Option<Self> {
        use tikv_jemalloc_ctl::{epoch, stats};
        epoch::advance().ok()?;
        Some(Self {
            allocated: stats::allocated::read().ok()?,
            active: stats::active::read().ok()?,
            resident: stats::resident::read().ok()?,
        })
    }
}

/// Waits until the allocator has returned freed memory: until its resident bytes have not shrunk
/// for longer than its decay time, or five seconds have passed. Idle memory is sampled after this.
pub async fn settle() {
    /// Smaller changes are noise. Not relative: a thousandth of 1.5 GB is more than a list uses.
    const NOISE_BYTES: usize = 64 * 1024;
    const STEP: Duration = Duration::from_millis(100);
    const STEADY_STEPS: u32 = 12;
    const MAX_STEPS: u32 = 50;
    let mut lowest = usize::MAX;
    let mut steady = 0;
    for _ in 0..MAX_STEPS {
        let Some(stats) = AllocatorStats::read() else {
            return;
        };
        if stats.resident < lowest.saturating_sub(NOISE_BYTES) {
            lowest = stats.resident;
            steady = 0;
        } else {
            steady += 1;
            if steady >= STEADY_STEPS {
                return;
            }
        }
        tokio::time::sleep(STEP).await;
    }
}

#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let e = &mut encoder;
        if let Some(stats) = AllocatorStats::read() {
            gauge(
                e,
                "jemalloc_allocated_bytes",
                "Bytes that the program asked for",
                stats.allocated as i64,
            )?;
            gauge(
                e,
                "jemalloc_active_bytes",
                "Bytes in pages that hold an allocation",
                stats.active as i64,
            )?;
            gauge(
                e,
                "jemalloc_resident_bytes",
                "Bytes that the allocator keeps from the system",
                stats.resident as i64,
            )?;
        }
        let Ok(process) = procfs::process::Process::myself() else {
            return Ok(());
        };
        if let Ok(stat) = process.stat() {
            let ticks = procfs::ticks_per_second() as f64;
            gauge(
                e,
                "process_resident_memory_bytes",
                "Resident memory",
                (stat.rss * procfs::page_size()) as i64,
            )?;
            counter(
                e,
                "process_cpu_seconds",
                "User and system CPU time, in ticks of the kernel",
                (stat.utime + stat.stime) as f64 / ticks,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_are_in_the_text() {
        let text = encode(&registry());
        for name in [
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
        ] {
            assert!(text.contains(name), "{name} not in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
