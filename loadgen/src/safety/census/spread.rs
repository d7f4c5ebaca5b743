//! Reads ascending pages, spread over a range of unknown keys.
//!
//! Each response has the number of keys from the page's start to the end. So the next page is read
//! in the middle of the widest gap with unread keys; the middle is computed from the bytes of the
//! keys, since their distribution is unknown. Kubernetes' keys have long common prefixes: if no key
//! is found from a middle on, the common prefix of the gap's keys is searched for by counting.

use bytes::Bytes;
use etcd_api::keys::prefix_end;

use super::{MAX_PAGES, PAGE, Sample, SampledPage};

/// The most requests: pages, including empty ones, and counts.
const MAX_REQUESTS: usize = 200;
/// The bytes after which no further page is read: a value may have 1.5 MB.
const MAX_BYTES: u64 = 16 << 20;

/// A page of keys.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// Key and bytes of each object, in the order of the keys.
    pub(super) objects: Vec<(Bytes, u64)>,
    /// The number of keys in the requested range, including those of the page.
    pub(super) rest: u64,
}

/// A source of keys that can be read and counted at one revision.
pub(super) trait Keys {
    /// The error of a request.
    type Error;

    /// Returns the first [`PAGE`] keys from `from` up to, and excluding, `to`.
    async fn page(&mut self, from: &[u8], to: &[u8]) -> Result<Page, Self::Error>;

    /// Returns the number of keys from `from` up to, and excluding, `to`.
    async fn count(&mut self, from: &[u8], to: &[u8]) -> Result<u64, Self::Error>;
}

/// A range of unread keys, whose number is known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gap {
    /// The first possible key of the gap: the last key of a page, and a zero byte.
    from: Vec<u8>,
    /// The end of the gap, exclusive.
    to: Vec<u8>,
    keys: u64,
    /// Whether `to` has been lowered to the end of the common prefix of the gap's keys.
    is_tight: bool,
}

/// A page whose weight is not computed yet, and the gap after it.
type Known = (SampledPage, Gap);

/// Reads pages from `start` up to `end`.
///
/// # Errors
/// The first error of `keys`.
pub(super) async fn sample<K: Keys>(
    keys: &mut K,
    start: &[u8],
    end: &[u8],
) -> Result<Sample, K::Error> {
    let first = keys.page(start, end).await?;
    let mut known: Vec<Known> = Vec::new();
    known.extend(behind(first, end.to_vec()));
    let mut requests = 1;
    while requests < MAX_REQUESTS && known.len() < MAX_PAGES && read(&known) < MAX_BYTES {
        let Some((nth, middle)) = widest(&known) else {
            break;
        };
        let to = known[nth].1.to.clone();
        let page = keys.page(&middle, &to).await?;
        requests += 1;
        let gap = &mut known[nth].1;
        let above = page.rest.min(gap.keys);
        gap.keys -= above;
        gap.to = middle;
        let finds_nothing = above == 0;
        let upper = behind(page, to);
        known.splice(nth + 1..nth + 1, upper);
        let gap = &mut known[nth].1;
        if finds_nothing && !gap.is_tight && gap.keys > 0 {
            requests += tighten(gap, keys).await?;
        }
    }
    Ok(weighted(known))
}

/// Returns a page, and the gap between its last key and `to`; `None` if the page has no keys.
fn behind(page: Page, to: Vec<u8>) -> Option<Known> {
    let (last, _) = page.objects.last()?;
    let gap = Gap {
        from: [last, &b"\0"[..]].concat(),
        to,
        keys: page.rest.saturating_sub(page.objects.len() as u64),
        is_tight: false,
    };
    let objects = page.objects.iter().take(PAGE);
    let page = SampledPage {
        sizes: objects.clone().map(|(_, size)| *size).collect(),
        key_bytes: objects.map(|(key, _)| key.len() as u64).sum(),
        weight: 0.0,
    };
    Some((page, gap))
}

fn read(known: &[Known]) -> u64 {
    known.iter().flat_map(|(page, _)| &page.sizes).sum()
}

/// Returns the index of the gap with the most keys among those that have a middle, and its middle.
fn widest(known: &[Known]) -> Option<(usize, Vec<u8>)> {
    let gaps = known.iter().enumerate();
    let gaps = gaps.filter(|(_, (_, gap))| gap.keys > 0);
    let gaps = gaps.filter_map(|(nth, (_, gap))| Some((nth, gap.keys, gap.middle()?)));
    let widest = gaps.max_by_key(|(nth, keys, _)| (*keys, std::cmp::Reverse(*nth)));
    widest.map(|(nth, _, middle)| (nth, middle))
}

/// Lowers the end of a gap to the end of the longest common prefix of its keys. Returns the number
/// of counting requests.
async fn tighten<K: Keys>(gap: &mut Gap, keys: &mut K) -> Result<usize, K::Error> {
    gap.is_tight = true;
    let before = gap.from[..gap.from.len() - 1].to_vec();
    // All keys of the gap share the first `all` bytes with the key before it, and not all of them
    // the first `not_all`.
    let mut all = gap.in_common();
    let mut not_all = before.len();
    let mut counts = 0;
    while all + 1 < not_all {
        let length = all.midpoint(not_all);
        let end = prefix_end(&before[..length]);
        counts += 1;
        match keys.count(&end, &gap.to).await? {
            0 => {
                gap.to = end;
                all = length;
            }
            _ => not_all = length,
        }
    }
    Ok(counts)
}

impl Gap {
    /// Returns the length of the common prefix of both ends.
    fn in_common(&self) -> usize {
        let bytes = self.from.iter().zip(&self.to);
        bytes.take_while(|(a, b)| a == b).count()
    }

    /// Returns a key about half-way between both ends, computed from the eight bytes after their
    /// common prefix; `None` if there is none. An end of `\0` is the end of all keys.
    fn middle(&self) -> Option<Vec<u8>> {
        let end = [0xff; 9];
        let to: &[u8] = if self.to == b"\0" { &end } else { &self.to };
        let same = self.from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let window = |key: &[u8]| {
            let mut bytes = [0; 8];
            let rest = &key[same..];
            let length = rest.len().min(8);
            bytes[..length].copy_from_slice(&rest[..length]);
            u64::from_be_bytes(bytes)
        };
        let (low, high) = (window(&self.from), window(to));
        match high.checked_sub(low)? / 2 {
            0 => None,
            half => Some([&self.from[..same], &(low + half).to_be_bytes()].concat()),
        }
    }
}

/// Returns the pages with their weights.
fn weighted(known: Vec<Known>) -> Sample {
    let unread = known.iter().map(|(_, gap)| gap.keys).sum();
    let last = known.len().saturating_sub(1);
    let mut before = 0.0;
    let pages = known.into_iter().enumerate().map(|(nth, (page, gap))| {
        let keys = gap.keys as f64;
        let behind = if nth == last { keys } else { keys / 2.0 };
        let weight = page.sizes.len() as f64 + before + behind;
        before = keys - behind;
        SampledPage { weight, ..page }
    });
    Sample {
        pages: pages.collect(),
        unread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_lies_between_two_keys() {
        let gap = |from: &[u8], to: &[u8]| Gap {
            from: from.to_vec(),
            to: to.to_vec(),
            keys: 9,
            is_tight: false,
        };
        for (from, to) in [
            (&b"/p/\0"[..], &b"/p0"[..]),
            (b"/p/a\0", b"/p/b"),
            (b"/p/pod-000999\0", b"/p/pod-500000"),
            (b"a\0", b"\0"),
            (b"\0\0", b"\0"),
        ] {
            let middle = gap(from, to).middle().expect("there is room");
            assert!(*from < *middle, "{middle:?}");
            assert!(to == b"\0" || *middle < *to, "{middle:?}");
        }
        assert_eq!(gap(b"/p/a\0", b"/p/a\0\0\0\0\0\0\0\0\0\0\0").middle(), None);
        assert_eq!(
            gap(b"/p/b\0", b"/p/a").middle(),
            None,
            "the wrong way round"
        );
    }
}
