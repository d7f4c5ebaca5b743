use std::collections::BTreeMap;
use std::convert::Infallible;

use super::spread::{Keys, Page, sample};
use super::*;

#[derive(Default)]
struct Stored {
    objects: BTreeMap<Vec<u8>, u64>,
    keys_read: usize,
    requests: usize,
}

impl Keys for Stored {
    type Error = Infallible;

    async fn page(&mut self, from: &[u8], to: &[u8]) -> Result<Page, Infallible> {
        assert!(from <= to, "a range as etcd takes it");
        let rest = self.objects.range(from.to_vec()..to.to_vec());
        let page = Page {
            rest: rest.clone().count() as u64,
            objects: rest
                .take(PAGE)
                .map(|(key, size)| (Bytes::copy_from_slice(key), *size))
                .collect(),
        };
        self.keys_read += page.objects.len();
        self.requests += 1;
        Ok(page)
    }

    async fn count(&mut self, from: &[u8], to: &[u8]) -> Result<u64, Infallible> {
        self.requests += 1;
        let rest = self.objects.range(from.to_vec()..to.to_vec());
        Ok(rest.count() as u64)
    }
}

impl Stored {
    fn new(count: u64, size: impl Fn(u64) -> u64) -> Self {
        let key = |i| format!("/p/team-{:02}/web-7d9c-{i:06}", i * 40 / count).into_bytes();
        Self {
            objects: (0..count).map(|i| (key(i), size(i))).collect(),
            ..Self::default()
        }
    }

    async fn sampled(&mut self) -> Sample {
        let Ok(sample) = sample(self, b"/p/", b"/p0").await;
        sample
    }

    fn bytes(&self) -> u64 {
        self.objects.values().sum()
    }
}

#[tokio::test]
async fn few_objects_are_all_read_and_their_sum_is_exact() {
    let mut few = Stored::new(6, |i| 100 + i);
    let sample = few.sampled().await;
    assert_eq!(sample.unread, 0);
    assert_eq!(sample.bytes_of_all(6), Some(few.bytes()));
}

#[tokio::test]
async fn nothing_has_no_bytes() {
    let mut nothing = Stored::default();
    assert_eq!(nothing.sampled().await.bytes_of_all(0), Some(0));
    assert_eq!(nothing.requests, 1);
    assert_eq!(Sample::default().bytes_of_all(7), None, "nobody looked");
}

#[tokio::test]
async fn of_many_a_bounded_part_is_read_and_the_estimate_is_not_too_low() {
    for (name, size) in [
        ("equal", (|_| 10_000) as fn(u64) -> u64),
        ("growing", |i| i / 10),
        (
            "two kinds",
            |i| if i % 40_000 < 20_000 { 500 } else { 30_000 },
        ),
    ] {
        let mut many = Stored::new(100_000, size);
        let sample = many.sampled().await;
        assert!(many.keys_read <= MAX_PAGES * PAGE, "{name}");
        let read: usize = sample.pages.iter().map(|page| page.sizes.len()).sum();
        assert_eq!(
            read as u64 + sample.unread,
            100_000,
            "{name}: every key counts once"
        );
        let weight: f64 = sample.pages.iter().map(|page| page.weight).sum();
        assert!((weight - 100_000.0).abs() < 1.0, "{name}: {weight}");
        let estimate = sample.bytes_of_all(100_000).expect("it was sampled");
        assert!(
            (many.bytes()..4 * many.bytes()).contains(&estimate),
            "{name}: {estimate} where there are {}",
            many.bytes()
        );
    }
}

/// Large objects come after many small ones: a reader of the beginning only never sees them.
#[tokio::test]
async fn pages_are_spread_over_the_prefix() {
    let mut tail = Stored::new(50_000, |i| if i < 40_000 { 100 } else { 20_000 });
    let sample = tail.sampled().await;
    let large = sample.pages.iter().filter(|page| page.sizes[0] == 20_000);
    let large = large.count();
    assert!(
        large >= 3,
        "a fifth of the keys has {large} of {} pages, by {} requests",
        sample.pages.len(),
        tail.requests
    );
}

#[tokio::test]
async fn huge_objects_end_the_sample() {
    let mut huge = Stored::new(1_000, |_| 1_500_000);
    let sample = huge.sampled().await;
    assert_eq!(sample.pages.len(), 2);
    assert_eq!(huge.keys_read, 2 * PAGE);
}
