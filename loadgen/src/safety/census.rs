//! Counts the objects below a prefix and estimates their sizes, without reading them all.
//!
//! To count, an etcd iterates over keys that it has in memory anyway. Sizes are estimated from at
//! most [`MAX_PAGES`] ascending pages of [`PAGE`] keys, see [`spread`]. A descending sort or a
//! filter by revision is never used: etcd ignores the limit of such a page and reads everything.

mod metadata;
mod spread;

use std::fmt;

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::error::Error as EtcdError;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::{RangeRequest, RangeResponse};
use report::quantity::Quantity;

use super::seeding::count;
use crate::timeouts::in_time;
pub use metadata::MetadataSums;
use spread::{Keys, Page, sample};

/// The number of keys of a page.
pub const PAGE: usize = 8;
/// The most pages with keys that are read.
pub const MAX_PAGES: usize = 32;
/// The bytes of an object in a list besides key and value: tags, lengths and revisions.
pub const ENVELOPE_BYTES: u64 = 36;

/// The number and estimated size of the objects below a prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Census {
    /// The number of objects.
    pub keys: u64,
    /// An upper estimate of the bytes of one list of them; `None` if it is unknown.
    pub bytes: Option<u64>,
    /// The pages that the estimate is made from.
    pub sample: Sample,
    /// What the metadata of their objects is made of.
    pub metadata: MetadataSums,
}

/// The sampled pages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The pages, in the order of their keys.
    pub pages: Vec<SampledPage>,
    /// The number of keys that are in none of the pages.
    pub unread: u64,
}

/// One sampled page and its weight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledPage {
    /// The bytes of each object in a list.
    pub sizes: Vec<u64>,
    /// The bytes of all keys together.
    pub key_bytes: u64,
    /// The number of keys that the page represents: its own, and half of those between it and its
    /// neighbours.
    pub weight: f64,
}

impl Census {
    /// Counts and samples the objects below `prefix`, or all objects if it is empty. Reads at most
    /// 256 keys, and no further page after 16 MiB. `in_use_bytes` is the database's size in use,
    /// which no list can exceed.
    ///
    /// # Errors
    /// [`EtcdError`] if the endpoint does not respond, or refuses a request.
    pub async fn of_etcd(
        client: &Client,
        prefix: &[u8],
        in_use_bytes: Option<u64>,
    ) -> Result<Self, EtcdError> {
        let keys = in_time(count(client, prefix)).await?;
        let start = if prefix.is_empty() { b"\0" } else { prefix };
        let mut there = EtcdKeys {
            client,
            revision: 0,
            metadata: MetadataSums::default(),
        };
        let sample = sample(&mut there, start, &prefix_end(prefix)).await?;
        let bytes = sample.bytes_of_all(keys);
        let bytes = bytes.map(|bytes| in_use_bytes.map_or(bytes, |most| bytes.min(most)));
        Ok(Self {
            keys,
            bytes,
            sample,
            metadata: there.metadata,
        })
    }
}

/// Formats the census on one line.
impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects", Quantity::Count(self.keys))?;
        match self.bytes {
            Some(bytes) => write!(f, ", about {} in one list", Quantity::bytes(bytes))?,
            None => f.write_str(", of unknown size")?,
        }
        let read: usize = self.sample.pages.iter().map(|page| page.sizes.len()).sum();
        let pages = self.sample.pages.len();
        write!(f, " ({read} of them read, in {pages} pages)")
    }
}

impl Sample {
    /// Returns the bytes of one list of `keys` objects: `keys` times the sum of the mean object
    /// size and twice the standard deviation of the pages' means. The result is exact if all
    /// objects were read. Returns `None` if there are keys and none was read.
    #[must_use]
    pub fn bytes_of_all(&self, keys: u64) -> Option<u64> {
        if self.unread == 0 && (keys == 0 || !self.pages.is_empty()) {
            return Some(self.pages.iter().flat_map(|page| &page.sizes).sum());
        }
        let weight: f64 = self.pages.iter().map(|page| page.weight).sum();
        if weight == 0.0 {
            return None;
        }
        let weighted = |of: &dyn Fn(&SampledPage) -> f64| {
            self.pages.iter().map(|p| p.weight * of(p)).sum::<f64>() / weight
        };
        let mean = weighted(&SampledPage::mean);
        let variance = weighted(&|page| (page.mean() - mean).powi(2));
        Some(((mean + 2.0 * variance.sqrt()) * keys as f64).ceil() as u64)
    }
}

impl Sample {
    /// Returns the mean size of the values, in bytes; `None` if none was read.
    #[must_use]
    pub fn mean_value(&self) -> Option<f64> {
        let weight: f64 = self.pages.iter().map(|page| page.weight).sum();
        let values = self.pages.iter().map(|page| {
            let sum: u64 = page.values().sum();
            page.weight * sum as f64 / page.sizes.len().max(1) as f64
        });
        (weight > 0.0).then(|| values.sum::<f64>() / weight)
    }

    /// Returns the quantile `q` of the sizes; `None` if none was read.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let pages = self.pages.iter();
        let sizes = pages.flat_map(|page| page.weighted(page.sizes.iter().copied()));
        let (sizes, all) = sorted(sizes.collect());
        let mut so_far = 0.0;
        let last = sizes.last().map(|(size, _)| *size);
        let reached = sizes.into_iter().find(|(_, weight)| {
            so_far += weight;
            so_far >= q * all
        });
        reached.map(|(size, _)| size).or(last)
    }

    /// Returns a few sizes that stand for those of all values, ascending, each with the fraction of
    /// the values that it stands for: the mean of each tenth of the values by size, and of the
    /// largest hundredth. Their mean is [`Self::mean_value`]. Empty if none was read.
    #[must_use]
    pub fn value_sizes(&self) -> Vec<(f64, f64)> {
        let pages = self.pages.iter();
        let values = pages.flat_map(|page| page.weighted(page.values()));
        let (values, all) = sorted(values.collect());
        let mut groups: Vec<(usize, f64, f64)> = Vec::new();
        let mut so_far = 0.0;
        for (value, weight) in values {
            let middle = (so_far + weight / 2.0) / all;
            so_far += weight;
            let group = GROUP_ENDS.iter().take_while(|end| middle > **end).count();
            match groups.last_mut().filter(|(last, ..)| *last == group) {
                Some((_, sum, weights)) => {
                    *sum += value as f64 * weight;
                    *weights += weight;
                }
                None => groups.push((group, value as f64 * weight, weight)),
            }
        }
        let groups = groups.into_iter();
        groups
            .map(|(_, sum, weight)| (sum / weight, weight / all))
            .collect()
    }
}

/// The fractions of the values, in ascending order of size, at which groups of them end.
const GROUP_ENDS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99];

/// Sorts sizes with their weights, and returns the sum of the weights.
fn sorted(mut sizes: Vec<(u64, f64)>) -> (Vec<(u64, f64)>, f64) {
    sizes.sort_by_key(|(size, _)| *size);
    let all = sizes.iter().map(|(_, weight)| weight).sum();
    (sizes, all)
}

impl SampledPage {
    /// Returns about the size of each value: without the page's mean key.
    fn values(&self) -> impl Iterator<Item = u64> {
        let key = self.key_bytes / self.sizes.len().max(1) as u64;
        let sizes = self.sizes.iter();
        sizes.map(move |size| size.saturating_sub(key + ENVELOPE_BYTES))
    }

    /// Returns sizes of the page's objects, each with the weight of an object of this page.
    fn weighted(&self, sizes: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, f64)> {
        let each = self.weight / self.sizes.len().max(1) as f64;
        sizes.map(move |size| (size, each))
    }

    fn mean(&self) -> f64 {
        self.sizes.iter().sum::<u64>() as f64 / self.sizes.len().max(1) as f64
    }
}

/// The keys of an etcd, at the revision of the first page.
struct EtcdKeys<'a> {
    client: &'a Client,
    revision: i64,
    metadata: MetadataSums,
}

impl EtcdKeys<'_> {
    async fn range(&mut self, mut request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        request.revision = self.revision;
        let answer = in_time(self.client.kv().range(request)).await?.into_inner();
        if self.revision == 0 {
            self.revision = answer.header.as_ref().map_or(0, |header| header.revision);
        }
        Ok(answer)
    }
}

impl Keys for EtcdKeys<'_> {
    type Error = EtcdError;

    async fn page(&mut self, from: &[u8], to: &[u8]) -> Result<Page, EtcdError> {
        let request = RangeRequest {
            key: Bytes::copy_from_slice(from),
            range_end: Bytes::copy_from_slice(to),
            limit: PAGE as i64,
            ..RangeRequest::default()
        };
        let answer = self.range(request).await?;
        answer
            .kvs
            .iter()
            .for_each(|kv| self.metadata.add(&kv.value));
        Ok(Page {
            rest: u64::try_from(answer.count).unwrap_or(0),
            objects: answer
                .kvs
                .into_iter()
                .map(|kv| {
                    let bytes = (kv.key.len() + kv.value.len()) as u64 + ENVELOPE_BYTES;
                    (kv.key, bytes)
                })
                .collect(),
        })
    }

    async fn count(&mut self, from: &[u8], to: &[u8]) -> Result<u64, EtcdError> {
        let request = RangeRequest {
            key: Bytes::copy_from_slice(from),
            range_end: Bytes::copy_from_slice(to),
            count_only: true,
            ..RangeRequest::default()
        };
        Ok(u64::try_from(self.range(request).await?.count).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
