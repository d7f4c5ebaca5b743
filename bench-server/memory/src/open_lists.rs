//! What lists that are still being sent keep in memory: a list is read from one state, and what later writes replaced in it is
//! not freed before its last reader is done. Counted for `/metrics`, so that a slow reader can be seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// The lists that are open. Opening and closing one cost a lock and O(log n) of them.
#[derive(Debug, Default)]
pub struct OpenLists {
    /// In the order they were opened.
    open: Mutex<BTreeMap<u64, Begun>>,
}

#[derive(Debug)]
struct Begun {
    at: Instant,
    /// Bytes that had been replaced at the state that it reads.
    replaced: u64,
}

/// One open list; it is over when this is dropped.
#[derive(Debug)]
pub struct OpenList {
    lists: Arc<OpenLists>,
    list: u64,
}

/// What is open at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pinned {
    /// Lists whose last frame was not asked for yet.
    pub lists: usize,
    /// How long the oldest of them is under way.
    pub oldest: Duration,
    /// Bytes that only they keep, at most.
    pub bytes: u64,
}

impl OpenLists {
    /// Opens a list of a state at which `replaced` bytes had ever been replaced.
    pub fn open(self: &Arc<Self>, replaced: u64) -> OpenList {
        let mut open = self.open.lock();
        let list = open.last_key_value().map_or(0, |(last, _)| last + 1);
        let at = Instant::now();
        open.insert(list, Begun { at, replaced });
        OpenList {
            lists: self.clone(),
            list,
        }
    }

    /// What is open, where `freed` of the bytes that were ever replaced would be free without it.
    /// O(open lists).
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

/// Encodes what is open from a collector, a line for each set of labels.
///
/// # Errors
/// The encoder's.
pub fn encode<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    pinned: &[(L, Pinned)],
) -> Result<(), std::fmt::Error> {
    type Figure = fn(&Pinned) -> f64;
    let figures: [(&str, &str, Figure); 3] = [
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
    for (name, help, figure) in figures {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, pinned) in pinned {
            let value = ConstGauge::new(figure(pinned));
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
    async fn what_is_freed_behind_the_oldest_state_is_kept_for_it() {
        let lists = Arc::new(OpenLists::default());
        assert_eq!(lists.pinned(70), Pinned::default());
        let first = lists.open(100);
        tokio::time::advance(Duration::from_secs(3)).await;
        // Of an older state, opened later.
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
