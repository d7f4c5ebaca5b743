//! Decides what is refused on a server with other people's data, what needs consent, and how many
//! bytes a run may read.

use std::time::Duration;

use report::quantity::Quantity;

use super::cost::Cost;

/// The part of the server's memory that a case may take without consent, in percent.
pub const ASK_ABOVE_PERCENT: u64 = 10;
/// The part of the server's memory that no case may exceed, in percent.
pub const NEVER_ABOVE_PERCENT: u64 = 50;
/// The assumed memory of a server of which nothing is known, in bytes: the minimum of etcd's
/// documentation.
const MIN_MEMORY_BYTES: u64 = 2 << 30;
/// The default pause between two lists.
pub const PAUSE: Duration = Duration::from_secs(5);
/// The shortest pause after a list, as a multiple of the list's duration: the server is busy with
/// lists for at most a quarter of the time.
const PAUSE_PER_LIST: u32 = 3;

/// The memory of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerMemory {
    /// The memory, in bytes.
    pub bytes: u64,
    /// Whether the size is from the command line; otherwise it is a lower bound.
    pub is_told: bool,
}

impl ServerMemory {
    /// Returns the size of the command line, or else a lower bound: servers do not report their
    /// memory, but it is not less than their resident size.
    #[must_use]
    pub fn new(told: Option<u64>, resident: Option<u64>) -> Self {
        Self {
            bytes: told.unwrap_or_else(|| resident.unwrap_or(0).max(MIN_MEMORY_BYTES)),
            is_told: told.is_some(),
        }
    }
}

impl std::fmt::Display for ServerMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = Quantity::bytes(self.bytes);
        match self.is_told {
            true => write!(f, "{bytes}"),
            false => write!(f, "{bytes} (assumed: --server-memory tells)"),
        }
    }
}

/// The permissions of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// `--yes`.
    pub yes: bool,
    /// `--server-memory`, in bytes.
    pub server_memory: Option<u64>,
    /// `--max-bytes`.
    pub max_bytes: Option<u64>,
    /// `--pause`.
    pub pause: Duration,
}

impl Default for Allowed {
    fn default() -> Self {
        Self {
            yes: false,
            server_memory: None,
            max_bytes: None,
            pause: PAUSE,
        }
    }
}

impl Allowed {
    /// Returns the pause after a list of this duration.
    #[must_use]
    pub fn pause_after(&self, list: Duration) -> Duration {
        self.pause.max(list * PAUSE_PER_LIST)
    }

    /// Returns the reason why a case of `rounds` rounds must not run, with the numbers that decide;
    /// `None` if it may run. `spent` bytes have been read so far.
    #[must_use]
    pub fn refuse(
        &self,
        cost: &Cost,
        rounds: u64,
        spent: u64,
        memory: &ServerMemory,
    ) -> Option<String> {
        let Some(peak) = cost.peak else {
            return (!self.yes)
                .then(|| "the size of a list is unknown; --yes allows it".to_owned());
        };
        let shown = Quantity::bytes(peak);
        if peak > memory.bytes / 100 * NEVER_ABOVE_PERCENT {
            return Some(format!(
                "may take {shown} of the server's memory, more than {NEVER_ABOVE_PERCENT} % of {memory}"
            ));
        }
        if !self.yes && peak > memory.bytes / 100 * ASK_ABOVE_PERCENT {
            return Some(format!(
                "may take {shown} of the server's memory, more than {ASK_ABOVE_PERCENT} % of {memory}; --yes allows it"
            ));
        }
        let most = self.max_bytes?;
        let left = most.saturating_sub(spent);
        let reads = cost.round.unwrap_or(0).saturating_mul(rounds);
        (reads > left).then(|| {
            format!(
                "reads {}, and {} are left of --max-bytes {}",
                Quantity::bytes(reads),
                Quantity::bytes(left),
                Quantity::bytes(most)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use workloads::{PlainList, Strategy, Tier};

    use super::*;
    use crate::safety::census::Census;

    const GIB: u64 = 1 << 30;

    /// Returns the cost of one unary list of this many bytes.
    fn unary(bytes: Option<u64>) -> Cost {
        let census = Census {
            keys: 1,
            bytes,
            ..Census::default()
        };
        Cost::of(
            Tier::Etcd,
            &Strategy::Plain(PlainList::Unary).into(),
            1,
            &census,
        )
    }

    fn memory_of(bytes: u64) -> ServerMemory {
        ServerMemory::new(Some(bytes), None)
    }

    #[test]
    fn a_tenth_of_the_memory_needs_consent_and_half_is_refused() {
        let (careful, yes) = (
            Allowed::default(),
            Allowed {
                yes: true,
                ..Allowed::default()
            },
        );
        let refuse = |allowed: Allowed, bytes, memory| {
            allowed.refuse(&unary(Some(bytes)), 1, 0, &memory_of(memory))
        };
        assert_eq!(refuse(careful, GIB, 64 * GIB), None, "6 of 64 GiB");
        let asked = refuse(careful, GIB, 32 * GIB).expect("6 of 32 GiB");
        assert!(
            asked.contains("6.00 GiB") && asked.contains("10 % of 32.0 GiB"),
            "{asked}"
        );
        assert!(asked.ends_with("--yes allows it"), "{asked}");
        assert_eq!(refuse(yes, GIB, 32 * GIB), None);
        let never = refuse(yes, GIB, 8 * GIB).expect("6 of 8 GiB");
        assert!(
            never.contains("6.00 GiB") && never.contains("50 % of 8.00 GiB"),
            "{never}"
        );
    }

    #[test]
    fn an_unknown_size_needs_consent() {
        let careful = Allowed::default();
        let asked = careful.refuse(&unary(None), 1, 0, &memory_of(GIB));
        assert!(asked.is_some_and(|asked| asked.contains("--yes")));
        let yes = Allowed {
            yes: true,
            ..careful
        };
        assert_eq!(yes.refuse(&unary(None), 1, 0, &memory_of(GIB)), None);
    }

    #[test]
    fn memory_that_is_not_told_is_the_least_that_it_must_be() {
        assert_eq!(ServerMemory::new(None, None).bytes, 2 * GIB);
        assert_eq!(ServerMemory::new(None, Some(GIB)).bytes, 2 * GIB);
        let resident = ServerMemory::new(None, Some(5 * GIB));
        assert_eq!(resident.bytes, 5 * GIB);
        assert!(resident.to_string().contains("--server-memory"));
        assert_eq!(ServerMemory::new(Some(GIB), Some(5 * GIB)), memory_of(GIB));
    }

    #[test]
    fn a_budget_ends_before_the_list_that_would_exceed_it() {
        let allowed = Allowed {
            max_bytes: Some(10 << 20),
            ..Allowed::default()
        };
        let refuse =
            |rounds, spent| allowed.refuse(&unary(Some(1 << 20)), rounds, spent, &memory_of(GIB));
        assert_eq!(refuse(10, 0), None);
        let refused = refuse(8, 3 << 20).expect("7 MiB are left");
        assert!(
            refused.contains("reads 8.00 MiB") && refused.contains("7.00 MiB are left"),
            "{refused}"
        );
    }

    #[test]
    fn a_list_is_followed_by_three_times_its_length() {
        let allowed = Allowed::default();
        assert_eq!(allowed.pause_after(Duration::from_millis(3)), PAUSE);
        let long = allowed.pause_after(Duration::from_secs(20));
        assert_eq!(long, Duration::from_secs(60));
    }
}
