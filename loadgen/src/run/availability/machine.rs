//! Compares the memory and disk that a case needs with what is free on this machine.
//!
//! The factors are measurements of the servers at their worst (etcd 3.7.1: 10,000 objects of 100
//! KB), rounded up: a case that is N/A can be run with fewer objects, but a case that the kernel
//! kills ends the whole run.

use workloads::{DataSet, Driver, EtcdResponse, GoClient, Strategy, Tier};

use crate::safety::stored_bytes;
use crate::servers::target_spec::TargetSpec;

/// Memory of a server without data, together with the generator's own, in bytes. Also added to the
/// disk that a case needs.
const BASE_BYTES: u64 = 256 << 20;
/// The percentage of the free memory and disk that a case may use.
const USABLE_PERCENT: u64 = 90;

/// The memory and disk that a case needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) struct Needs {
    pub(in crate::run) memory: u64,
    pub(in crate::run) disk: u64,
}

impl Needs {
    /// Returns the needs of a case on servers that loadgen starts.
    pub(in crate::run) fn of(
        target: &TargetSpec,
        tier: Tier,
        strategy: Strategy,
        data: &DataSet,
        clients: u32,
    ) -> Self {
        let bytes = stored_bytes(data, "/registry/");
        let (strategy, program) = match strategy.go_client() {
            Some(client) => (client.same_request(), of_program(client) * bytes),
            None => (strategy, 0),
        };
        let clients = u64::from(clients);
        let page = |size: u32| bytes.min(bytes / data.len() * u64::from(size));
        let sizes = data.spec().object_sizes.iter().flatten();
        let largest = sizes.map(|size| u64::from(size.bytes)).max();
        let two_objects = page(2).max(2 * largest.unwrap_or(0));
        let is_small = matches!(strategy.driver(), Driver::Requests | Driver::Delivery);
        let is_ours = target.is_bench();
        let response = strategy.etcd_response();
        let (rest, per_list, disk) = match (is_ours, tier, strategy) {
            (true, Tier::Etcd, _) if is_small => (bytes * 3 / 2, 1 << 20, 0),
            (_, Tier::Etcd, _) if is_small => (bytes, 1 << 20, bytes * 4),
            // Lists are streamed: each client costs buffers and an object or two.
            (true, Tier::Kube, _) => (bytes * 3, (2 << 20) + two_objects, 0),
            (true, _, _) if response == Some(EtcdResponse::Buffered) => {
                (bytes * 3 / 2, bytes * 3 / 2, 0)
            }
            (true, _, _) => (bytes * 3 / 2, 16 << 20, 0),
            // An etcd, and in front of it a cache that serves the lists.
            (_, Tier::Kube, _) => (bytes * 4, (2 << 20) + two_objects, bytes * 4),
            // The mapped database file counts, but its pages can be dropped: half of it must fit.
            (_, _, _) if response == Some(EtcdResponse::Stream) => (bytes, bytes, bytes * 4),
            (_, _, Strategy::Paged(size)) => (bytes, page(size.get()) * 5, bytes * 4),
            _ => (bytes, bytes * 4, bytes * 4),
        };
        // The log contains every object once, and a snapshot is as large again.
        let disk = match target {
            TargetSpec::BenchLog { .. } => bytes * 2,
            _ => disk,
        };
        Self {
            memory: BASE_BYTES + rest + (per_list + program) * clients,
            disk: if disk > 0 { disk + BASE_BYTES } else { 0 },
        }
    }

    /// Returns why the case cannot run with this much free memory and disk, and how many objects
    /// would fit; `None` if it can run.
    pub(in crate::run) fn refuse(
        self,
        free_memory: u64,
        free_disk: u64,
        objects: u64,
    ) -> Option<String> {
        let checks = [
            ("memory", self.memory, free_memory),
            ("disk", self.disk, free_disk),
        ];
        checks.into_iter().find_map(|(what, needed, free)| {
            let usable = free / 100 * USABLE_PERCENT;
            if needed <= usable {
                return None;
            }
            let variable = needed.saturating_sub(BASE_BYTES).max(1);
            let room = usable.saturating_sub(BASE_BYTES);
            let fitting = (u128::from(objects) * u128::from(room) / u128::from(variable)) as u64;
            let hint = match fitting {
                0 => "no number of objects fits".to_owned(),
                fitting => format!("--objects {fitting} fits"),
            };
            Some(format!(
                "needs {} MiB of {what}, {} MiB may be used ({USABLE_PERCENT} % of what is free); {hint}",
                needed >> 20,
                usable >> 20
            ))
        })
    }
}

/// Returns the memory that a Go client needs for a list, as a multiple of the stored bytes: the
/// responses, the decoded objects, and what the garbage collector has not freed yet.
fn of_program(client: GoClient) -> u64 {
    match client {
        GoClient::Unary | GoClient::Stream | GoClient::Paged(_) => 5,
        GoClient::List => 8,
        GoClient::Informer => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_does_not_fit_says_what_would() {
        let needs = Needs {
            memory: BASE_BYTES + (4 << 30),
            disk: 0,
        };
        assert_eq!(needs.refuse(8 << 30, 0, 1_000), None);
        let reason = needs.refuse(2 << 30, 0, 1_000).expect("4 GiB into 2 GiB");
        assert!(reason.contains("needs 4352 MiB of memory"), "{reason}");
        assert!(reason.contains("--objects 38"), "{reason}");
        let reason = needs
            .refuse(128 << 20, 0, 1_000)
            .expect("not even the base");
        assert!(reason.contains("no number of objects"), "{reason}");
    }

    #[test]
    fn disk_is_checked_where_it_is_used() {
        let needs = Needs {
            memory: 0,
            disk: 1 << 30,
        };
        let reason = needs
            .refuse(u64::MAX, 1 << 20, 10)
            .expect("1 GiB into 1 MiB");
        assert!(reason.contains("of disk"), "{reason}");
    }
}
