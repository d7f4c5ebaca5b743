//! Estimates the memory that a case takes from a server at its peak, in the worst case, and orders
//! cases on a server that loadgen did not start.
//!
//! The factors are rounded up from measurements of etcd 3.7.1 with 1.44 GiB of objects: 2.8 GiB
//! above idle for a first unary list, 7.9 GiB for repeated ones, part of it pages of the mapped
//! database; 0.6 to 0.8 GiB for streams and pages. An apiserver takes five times its response
//! (Kubernetes KEP-3157, Motivation).

use workloads::scenario::Operation;
use workloads::{CaseSpec, Driver, EtcdResponse, Strategy, Tier};

use super::census::Census;

/// The memory that one unary list takes from an etcd, as a multiple of the list's bytes: the
/// objects, the response, and garbage not yet collected.
const UNARY: u64 = 6;
/// The memory that a stream or pages take, as a multiple of the whole list's bytes: mostly pages of
/// the mapped database that become resident.
const STREAM: u64 = 2;
/// The memory that a list takes from an apiserver, as a multiple of its bytes.
const APISERVER: u64 = 5;
/// The memory that a client of small requests, or a watcher, takes, in bytes.
const SMALL_BYTES: u64 = 1 << 20;

/// The cost of a case for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The memory at the peak, in bytes above what the server has before; `None` if the size of a
    /// list is unknown.
    pub peak: Option<u64>,
    /// The bytes that one round of lists reads.
    pub round: Option<u64>,
    /// The rank among cases with the same peak, the cheapest first, and the size of a page.
    rank: (u8, u32),
}

impl Cost {
    /// Returns the cost of a case with `clients` clients over these objects.
    #[must_use]
    pub fn of(tier: Tier, case: &CaseSpec, clients: u32, census: &Census) -> Self {
        let rank = rank(case.strategy);
        let clients = u64::from(clients);
        match case.strategy.driver() {
            Driver::List | Driver::Shards => {
                let workers = case.strategy.workers().map_or(clients, |n| n.get().into());
                // The shards are parts of one list. With client-side filtering, each worker reads
                // the whole list.
                let lists = match case.strategy {
                    Strategy::Sharded(_) => 1,
                    _ => workers,
                };
                let peak = list(tier, case.strategy, census);
                Self {
                    peak: peak.and_then(|peak| peak.checked_mul(workers)),
                    round: census.bytes.and_then(|bytes| bytes.checked_mul(lists)),
                    rank,
                }
            }
            Driver::ShardedWatch => {
                let workers = case.strategy.workers().map_or(1, |n| n.get().into());
                Self {
                    peak: list(tier, case.strategy, census).and_then(|p| p.checked_mul(workers)),
                    round: census.bytes.and_then(|bytes| bytes.checked_mul(workers)),
                    rank,
                }
            }
            Driver::Loads => Self {
                peak: case.loads.as_ref().map_or(Some(0), |case| {
                    let loads = case.load.iter().map(|load| {
                        let clients = u64::from(load.clients.get());
                        let each = match &load.operation {
                            Operation::List(strategy) => list(tier, *strategy, census),
                            Operation::Small(_) | Operation::Watch => Some(SMALL_BYTES),
                        };
                        each.and_then(|each| each.checked_mul(clients))
                    });
                    loads.sum()
                }),
                round: Some(0),
                rank,
            },
            Driver::Requests | Driver::Delivery | Driver::Idle => Self {
                peak: clients.checked_mul(SMALL_BYTES),
                round: Some(0),
                rank,
            },
        }
    }

    /// Returns a key that sorts cases from the cheapest to the most expensive; cases of unknown
    /// cost are last.
    #[must_use]
    pub fn order(self) -> impl Ord {
        (self.peak.unwrap_or(u64::MAX), self.rank)
    }
}

/// Returns the memory that one list takes at its peak.
fn list(tier: Tier, strategy: Strategy, census: &Census) -> Option<u64> {
    let bytes = census.bytes?;
    let request = strategy
        .go_client()
        .map_or(strategy, workloads::GoClient::same_request);
    match (tier, request) {
        (_, Strategy::NoLists | Strategy::NoWatches) => Some(SMALL_BYTES),
        (Tier::Etcd, Strategy::Paged(_)) => bytes.checked_mul(STREAM),
        (Tier::Etcd, _) if request.etcd_response() == Some(EtcdResponse::Stream) => {
            bytes.checked_mul(STREAM)
        }
        (Tier::Etcd, _) => bytes.checked_mul(UNARY),
        (Tier::Kube, Strategy::Paged(size)) => {
            let objects = census.keys.max(1);
            let page = u128::from(bytes) * u128::from(size.get()).min(objects.into());
            let page = u64::try_from(page / u128::from(objects)).ok()?;
            page.checked_mul(APISERVER)
        }
        (Tier::Kube, _) => bytes.checked_mul(APISERVER),
    }
}

/// Returns the rank of a strategy, by operators' experience.
fn rank(strategy: Strategy) -> (u8, u32) {
    let rank = match strategy {
        Strategy::NoLists | Strategy::NoWatches | Strategy::Get | Strategy::Watch => 0,
        Strategy::Put | Strategy::FanOut | Strategy::Loads => 1,
        Strategy::Paged(size) => return (2, size.get()),
        Strategy::Plain(list) => list.spec().rank,
        Strategy::Selector(_) | Strategy::ReadYourWrite => 6,
        Strategy::Exact => 7,
        Strategy::Sharded(_) | Strategy::WatchSharded(_) => 8,
        Strategy::GoClient(_) => 9,
        Strategy::ClientFiltered(_) | Strategy::WatchClientFiltered(_) => 12,
    };
    (rank, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(keys: u64, bytes: u64) -> Census {
        Census {
            keys,
            bytes: Some(bytes),
            ..Census::default()
        }
    }

    fn cost(tier: Tier, name: &str, clients: u32) -> Cost {
        let strategy: Strategy = name.parse().expect("a strategy");
        Cost::of(tier, &strategy.into(), clients, &census(1_000, 1 << 20))
    }

    #[test]
    fn unary_takes_three_times_a_stream_and_each_client_as_much() {
        let mib = |n: u64| Some(n << 20);
        assert_eq!(cost(Tier::Etcd, "unary", 1).peak, mib(6));
        assert_eq!(cost(Tier::Etcd, "unary", 5).peak, mib(30));
        assert_eq!(cost(Tier::Etcd, "unary", 5).round, mib(5));
        assert_eq!(cost(Tier::Etcd, "stream", 1).peak, mib(2));
        assert_eq!(cost(Tier::Kube, "consistent", 1).peak, mib(5));
        let page = cost(Tier::Kube, "paged:500", 1).peak;
        assert_eq!(page, Some((5 << 20) / 2), "half of the objects");
        let shards = cost(Tier::Kube, "sharded:4", 1);
        assert_eq!((shards.peak, shards.round), (mib(20), mib(1)));
    }

    #[test]
    fn cases_go_from_the_cheapest_to_the_dearest() {
        let mut etcd: Vec<_> = ["unary", "stream", "paged:10000", "paged:500", "get"]
            .map(|name| (cost(Tier::Etcd, name, 1), name))
            .into();
        etcd.push((cost(Tier::Etcd, "stream", 2), "two streams"));
        etcd.sort_by_key(|(cost, _)| cost.order());
        let names = etcd.into_iter().map(|(_, name)| name);
        let names: Vec<_> = names.collect();
        assert_eq!(
            names,
            [
                "get",
                "paged:500",
                "paged:10000",
                "stream",
                "two streams",
                "unary"
            ]
        );
    }

    #[test]
    fn what_nobody_knows_is_the_dearest() {
        let unknown = Census {
            keys: 5,
            ..Census::default()
        };
        let strategy: Strategy = "paged:500".parse().expect("a strategy");
        let unknown = Cost::of(Tier::Etcd, &strategy.into(), 1, &unknown);
        assert_eq!(unknown.peak, None);
        assert!(unknown.order() > cost(Tier::Etcd, "unary", 100).order());
    }
}
