//! Generates names as in real clusters: teams and their namespaces, nodes, and ReplicaSets'
//! suffixes.

use crate::random::{Stream, below, generator, put_hex, put_name_letters};
use rand_xoshiro::rand_core::Rng;

/// The teams, each with the application that it runs.
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

/// Number of suffixes of five letters: 27⁵.
const SUFFIXES: u64 = 14_348_907;

/// A namespace. The namespaces of a data set are in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    /// Index into [`TEAMS`].
    pub(crate) team: usize,
}

/// Returns `count` namespaces in the order of storage keys (`name/`, so that `a-b` is before `a`).
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

/// Returns the name of node `i`, which contains its node pool.
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

/// Returns five letters that differ for every `i` below 27⁵ and have no visible order.
fn suffix(i: u64, shift: u64) -> String {
    // The factor is coprime to 27⁵, so this is a permutation.
    let value = (i % SUFFIXES * 9_263_117 + shift) % SUFFIXES;
    let mut out = [0; 5];
    put_name_letters(&mut out, value);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns a name for item `i` of `count` with random letters; names ascend with `i`.
///
/// The space of names is divided into `count` equal parts, and one name is drawn from each.
pub(crate) fn ascending<const LETTERS: usize>(
    rng: &mut impl Rng,
    i: u64,
    count: u64,
) -> [u8; LETTERS] {
    let part = 27u64.pow(LETTERS as u32) / count;
    let mut out = [0; LETTERS];
    put_name_letters(&mut out, i * part + below(rng, part));
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
