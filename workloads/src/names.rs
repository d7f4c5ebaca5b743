//! Names as clusters have them: teams and their namespaces, nodes, and what a ReplicaSet makes up.

use crate::random::{Stream, below, generator, put_hex, put_name};
use rand_xoshiro::rand_core::Rng;

/// A team and the application that it runs.
pub(crate) const TEAMS: [(&str, &str); 12] = [
    ("accounts", "accounts-api"),
    ("billing", "invoice-worker"),
    ("catalog", "catalog-index"),
    ("checkout", "checkout-api"),
    ("delivery", "route-planner"),
    ("identity", "token-issuer"),
    ("ledger", "ledger-writer"),
    ("media", "media-resizer"),
    ("payments", "payments-api"),
    ("pricing", "price-engine"),
    ("search", "query-frontend"),
    ("streaming", "stream-joiner"),
];

/// 27⁵: how many suffixes of five letters there are.
const SUFFIXES: u64 = 14_348_907;

/// A namespace; those of a data set are in the order in which their keys sort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    /// Position in [`TEAMS`].
    pub(crate) team: usize,
}

/// `count` namespaces, sorted as storage keys sort them (`name/`, so that `a-b` is before `a`).
pub(crate) fn namespaces(seed: u64, count: u32) -> Vec<Namespace> {
    let shift = below(&mut generator(seed, Stream::Namespaces, 0), SUFFIXES);
    let mut all: Vec<_> = (0..u64::from(count))
        .map(|i| {
            let team = (i % TEAMS.len() as u64) as usize;
            Namespace {
                name: format!("{}-{}", TEAMS[team].0, suffix(i, shift)),
                team,
            }
        })
        .collect();
    all.sort_by_key(|namespace| format!("{}/", namespace.name));
    all
}

/// The name of node `i`, with the pool that it belongs to.
pub(crate) fn node(seed: u64, i: u64) -> String {
    let pool = i % 6;
    let mut hash = [0; 8];
    put_hex(&mut hash, &mut generator(seed, Stream::Nodes, pool));
    let hash = String::from_utf8_lossy(&hash).into_owned();
    let shift = below(&mut generator(seed, Stream::Nodes, 6), SUFFIXES);
    format!(
        "pool-{}-{hash}-{}",
        char::from(b'a' + pool as u8),
        suffix(i, shift)
    )
}

/// Five letters that differ for every `i` below 27⁵ and look unordered.
fn suffix(i: u64, shift: u64) -> String {
    // The factor has no divisor in common with 27⁵, so this is a permutation.
    let value = (i % SUFFIXES * 9_263_117 + shift) % SUFFIXES;
    let mut out = [0; 5];
    put_name(&mut out, value);
    String::from_utf8_lossy(&out).into_owned()
}

/// Item `i` of `count` as one of `letters` random-looking letters that ascend with `i`.
///
/// The space of names is cut into `count` equal parts, and one name is drawn from each.
pub(crate) fn ascending<const LETTERS: usize>(
    rng: &mut impl Rng,
    i: u64,
    count: u64,
) -> [u8; LETTERS] {
    let part = 27u64.pow(LETTERS as u32) / count;
    let mut out = [0; LETTERS];
    put_name(&mut out, i * part + below(rng, part));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn namespaces_are_distinct_and_sorted_as_keys() {
        let all = namespaces(1, 10_000);
        let names: BTreeSet<_> = all.iter().map(|namespace| &namespace.name).collect();
        assert_eq!(names.len(), 10_000);
        assert!(
            all.windows(2)
                .all(|pair| format!("{}/", pair[0].name) < format!("{}/", pair[1].name))
        );
        assert_ne!(all, namespaces(2, 10_000), "the seed counts");
    }

    #[test]
    fn nodes_are_distinct_and_of_one_length() {
        let all: BTreeSet<_> = (0..5_000).map(|i| node(1, i)).collect();
        assert_eq!(all.len(), 5_000);
        assert!(all.iter().all(|name| name.len() == node(1, 0).len()));
    }
}
