//! Forward pages, spread over keys that nobody knows.
//!
//! Each page says how many keys are left from its start. So the next one is read in the middle of
//! the widest stretch of which nothing is known yet: by bytes, since nothing better is known. Names
//! of Kubernetes begin with much that all of them have in common; where a middle finds nothing,
//! what the stretch's keys have in common is searched for by counting.

use bytes::Bytes;
use etcd_api::keys::prefix_end;

use super::{MOST_PAGES, PAGE, Sample, SampledPage};

/// Requests in all: pages, also those that find nothing, and counts.
const MOST_REQUESTS: usize = 200;
/// Bytes after which no other page is read: keys may hold 1.5 MB each.
const MOST_BYTES: u64 = 16 << 20;

/// A page as it was read.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// Key and bytes of each object, in the order of the keys.
    pub(super) objects: Vec<(Bytes, u64)>,
    /// Keys of the stretch that was asked for, these among them.
    pub(super) rest: u64,
}

/// Keys that can be read and counted, of one revision.
pub(super) trait Keys {
    /// Why they cannot.
    type Error;

    /// The first [`PAGE`] keys between `from` and `to`, which is not among them.
    async fn page(&mut self, from: &[u8], to: &[u8]) -> Result<Page, Self::Error>;

    /// How many there are.
    async fn count(&mut self, from: &[u8], to: &[u8]) -> Result<u64, Self::Error>;
}

/// A stretch of keys of which nothing is known but how many they are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gap {
    /// The first key that may be in it: the last one of a page, and a zero byte.
    from: Vec<u8>,
    /// The first one behind it.
    to: Vec<u8>,
    keys: u64,
    /// Whether `to` is as low as what its keys have in common allows.
    is_tight: bool,
}

/// A page, of which it is not yet known what it stands for, and the gap behind it.
type Known = (SampledPage, Gap);

/// Reads pages between two keys.
///
/// # Errors
/// The first of `keys`.
pub(super) async fn sample<K: Keys>(
    keys: &mut K,
    start: &[u8],
    end: &[u8],
) -> Result<Sample, K::Error> {
    let first = keys.page(start, end).await?;
    let mut known: Vec<Known> = Vec::new();
    known.extend(behind(first, end.to_vec()));
    let mut requests = 1;
    while requests < MOST_REQUESTS && known.len() < MOST_PAGES && read(&known) < MOST_BYTES {
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

/// Returns a page, and the gap between its last key and `to`; `None` of a page without keys.
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

/// Returns the gap with the most keys that has a middle, and that.
fn widest(known: &[Known]) -> Option<(usize, Vec<u8>)> {
    let gaps = known.iter().enumerate();
    let gaps = gaps.filter(|(_, (_, gap))| gap.keys > 0);
    let gaps = gaps.filter_map(|(nth, (_, gap))| Some((nth, gap.keys, gap.middle()?)));
    let widest = gaps.max_by_key(|(nth, keys, _)| (*keys, std::cmp::Reverse(*nth)));
    widest.map(|(nth, _, middle)| (nth, middle))
}

/// Lowers a gap's end to where the keys end that begin as all of it do. Returns how many counts it
/// took.
async fn tighten<K: Keys>(gap: &mut Gap, keys: &mut K) -> Result<usize, K::Error> {
    gap.is_tight = true;
    let before = gap.from[..gap.from.len() - 1].to_vec();
    // All keys of the gap begin with so many bytes of the key before it, and not all with so many.
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
    /// Bytes that both its ends begin with.
    fn in_common(&self) -> usize {
        let bytes = self.from.iter().zip(&self.to);
        bytes.take_while(|(a, b)| a == b).count()
    }

    /// A key about half-way between its ends, counted in the eight bytes that follow what both
    /// begin with; `None` where none lies between them. An end of `\0` is the end of all keys.
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

/// Each page with the keys that it stands for.
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
