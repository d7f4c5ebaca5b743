//! Counts lists being sent, and the memory that they keep. A list reads one snapshot, and data that
//! later writes replace is freed only after its last reader. `/metrics` shows these counts, so that
//! slow readers are visible.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// The open lists. Opening and closing one costs a lock and O(log n).
#[derive(Debug, Default)]
pub struct OpenLists {
    /// Open lists in the order of opening.
    open: Mutex<BTreeMap<u64, Opened>>,
}

#[derive(Debug)]
struct Opened {
    at: Instant,
    /// Bytes that had been replaced before the list's snapshot.
    replaced: u64,
}

/// An open list; dropping it closes it.
#[derive(Debug)]
pub struct OpenList {
    lists: Arc<OpenLists>,
    list: u64,
}

/// The open lists at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pinned {
    /// Number of lists whose last frame was not polled yet.
    pub lists: usize,
    /// Age of the oldest one.
    pub oldest: Duration,
    /// Upper bound of the bytes that only these lists keep.
    pub bytes: u64,
}

impl OpenLists {
    /// Opens a list of a snapshot before which `replaced` bytes had been replaced in total.
    pub fn open(self: &Arc<Self>, replaced: u64) -> OpenList {
        let mut open = self.open.lock();
        let list = open.last_key_value().map_or(0, |(last, _)| last + 1);
        let at = Instant::now();
        open.insert(list, Opened { at, replaced });
        OpenList {
            lists: self.clone(),
            list,
        }
    }

    /// Returns the open lists. `freed` is the total of replaced bytes that would be free without
    /// open lists. O(open lists).
    pub fn pinned(&self, freed: u64) -> Pinned {
        let open = self.open.lock();
        let mut lists = open.values();
        let bytes = lists.clone().map(|list| list.replaced).min();
        Pinned {
            lists: open.len(),
            oldest: lists
                .next()
                .map_or(Duration::ZERO, |list| list.at.elapsed()),
            bytes: bytes.map_or(0, |replaced| freed.saturating_sub(replaced)),
        }
    }
}

impl Drop for OpenList {
    fn drop(&mut self) {
        self.lists.open.lock().remove(&self.list);
    }
}

/// Encodes the metrics of open lists from a collector, one line for each set of labels.
///
/// # Errors
/// The encoder's.
pub fn encode<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    pinned: &[(L, Pinned)],
) -> Result<(), std::fmt::Error> {
    type Value = fn(&Pinned) -> f64;
    let metrics: [(&str, &str, Value); 3] = [
        (
            "bench_server_lists_open",
            "Lists that are being sent",
            |pinned| pinned.lists as f64,
        ),
        (
            "bench_server_list_oldest_seconds",
            "How long the oldest of them is under way",
            |pinned| pinned.oldest.as_secs_f64(),
        ),
        (
            "bench_server_list_pinned_bytes",
            "Bytes that are kept for them alone, at most: replaced or deleted since, and not part of any history",
            |pinned| pinned.bytes as f64,
        ),
    ];
    for (name, help, value_of) in metrics {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, pinned) in pinned {
            let value = ConstGauge::new(value_of(pinned));
            prometheus_client::encoding::EncodeMetric::encode(
                &value,
                family.encode_family(labels)?,
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_is_kept_for_the_oldest_snapshot() {
        let lists = Arc::new(OpenLists::default());
        assert_eq!(lists.pinned(70), Pinned::default());
        let first = lists.open(100);
        tokio::time::advance(Duration::from_secs(3)).await;
        // A list of an older state that was opened later.
        let second = lists.open(40);
        let pinned = lists.pinned(70);
        assert_eq!(
            (pinned.lists, pinned.oldest.as_secs(), pinned.bytes),
            (2, 3, 30)
        );
        drop(second);
        assert_eq!(lists.pinned(70).bytes, 0, "what went before it began");
        assert_eq!(lists.pinned(175).bytes, 75);
        drop(first);
        assert_eq!(lists.pinned(175), Pinned::default());
    }
}
