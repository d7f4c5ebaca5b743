//! The rounds of a row one by one, and in which of them the machine's cores were not where they usually are.

use serde::{Deserialize, Serialize};

use super::Spread;

/// By which factor a round trip differs from the usual one when cores have moved. As long as they stay, it is the same within a
/// tenth; threads of one core have half of it, cores without a common cache three times as much and more.
const MOVED: f64 = 1.5;

/// One measured round: every client has its list, or its requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Round {
    /// Wall-clock time until the last client was done.
    pub ms: f64,
    /// CPU time of all servers meanwhile; null where none of them is ours.
    pub server_cpu_ms: Option<f64>,
    /// The shortest and the longest time in which a cache line went from the first core to the one that is farthest from it and
    /// back, from right before the round to right after it; null where that is not measured: see
    /// [`super::Environment::core_round_trip_ns`].
    pub core_round_trip_ns: Option<[f64; 2]>,
}

/// In how many rounds the cores had moved: a cache line took over 1.5 times as long as it usually does in this run from one to the
/// other and back, or under 2/3 of it. The host of a virtual machine runs its CPUs where it likes: on cores without a common cache
/// whatever goes from one to the other is slower, and on the two threads of one core everything is. Such rounds are part of all
/// figures; this says what the others came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Moved {
    /// Rounds in which they had.
    pub rounds: u32,
    /// All rounds.
    pub of: u32,
    /// Time of the other rounds; null without any.
    pub usual_ms: Option<Spread>,
    /// CPU time of all servers in the other rounds.
    pub usual_server_cpu_ms: Option<Spread>,
}

impl Moved {
    /// Of these rounds, where a cache line usually takes so long. `None` without a round, or where one was not looked at.
    #[must_use]
    pub fn of(rounds: impl IntoIterator<Item = Round>, usual_ns: f64) -> Option<Self> {
        let rounds: Vec<Round> = rounds.into_iter().collect();
        let is_usual = |ns: f64| (usual_ns / MOVED..=usual_ns * MOVED).contains(&ns);
        let mut usual = Vec::new();
        for round in &rounds {
            if round.core_round_trip_ns?.into_iter().all(is_usual) {
                usual.push(round);
            }
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let cpu: Option<Vec<f64>> = usual.iter().map(|round| round.server_cpu_ms).collect();
        (!rounds.is_empty()).then(|| Self {
            rounds: count(rounds.len() - usual.len()),
            of: count(rounds.len()),
            usual_ms: Spread::of(usual.iter().map(|round| round.ms)),
            usual_server_cpu_ms: cpu.and_then(Spread::of),
        })
    }

    /// In words; `None` where the cores stayed all the time.
    #[must_use]
    pub fn in_rounds(&self) -> Option<String> {
        let Self { rounds, of, .. } = self;
        (*rounds > 0).then(|| format!("cores moved in {rounds} of {of} rounds"))
    }
}

/// How long a cache line usually takes: the lower quartile of what rounds had at most, in nanoseconds. It holds where less than a
/// quarter of them had cores nearer than usual and less than three quarters had them farther apart. `None` without a look.
pub(super) fn usual_ns(rounds: impl Iterator<Item = Round>) -> Option<f64> {
    let longest = rounds.filter_map(|round| round.core_round_trip_ns.map(|[_, longest]| longest));
    let mut longest: Vec<f64> = longest.collect();
    longest.sort_by(f64::total_cmp);
    longest.get(longest.len() / 4).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(ms: f64, core_round_trip_ns: [f64; 2]) -> Round {
        Round {
            ms,
            server_cpu_ms: Some(ms / 2.0),
            core_round_trip_ns: Some(core_round_trip_ns),
        }
    }

    #[test]
    fn rounds_whose_cores_were_elsewhere_are_told_from_the_others() {
        let rounds = [
            round(460.0, [60.0, 65.0]),
            round(1_000.0, [62.0, 305.0]),
            round(540.0, [29.0, 64.0]),
            round(470.0, [62.0, 69.0]),
        ];
        let usual = usual_ns(rounds.into_iter()).expect("each was looked at");
        assert_eq!(usual, 65.0);
        let moved = Moved::of(rounds, usual).expect("each was looked at");
        assert_eq!((moved.rounds, moved.of), (2, 4));
        let others = moved.usual_ms.expect("two rounds");
        assert_eq!((others.min, others.p50, others.max), (460.0, 465.0, 470.0));
        assert_eq!(moved.usual_server_cpu_ms.map(|cpu| cpu.p50), Some(232.5));
        let all = Moved::of([round(1.0, [305.0, 305.0])], 62.0).expect("looked at");
        assert_eq!((all.rounds, all.of, all.usual_ms), (1, 1, None));
    }

    #[test]
    fn most_of_a_run_may_have_distant_cores() {
        let far = std::iter::repeat_n(round(900.0, [62.0, 305.0]), 7);
        let near = std::iter::repeat_n(round(460.0, [62.0, 64.0]), 3);
        assert_eq!(usual_ns(far.chain(near)), Some(64.0));
    }

    #[test]
    fn without_a_look_nothing_is_said() {
        let unseen = Round {
            core_round_trip_ns: None,
            ..round(460.0, [62.0, 62.0])
        };
        assert_eq!(usual_ns(std::iter::once(unseen)), None);
        assert_eq!(Moved::of([], 62.0), None);
        assert_eq!(Moved::of([round(460.0, [62.0, 62.0]), unseen], 62.0), None);
    }

    #[test]
    fn a_server_that_is_not_ours_has_no_cpu() {
        let other = Round {
            server_cpu_ms: None,
            ..round(460.0, [62.0, 62.0])
        };
        let moved = Moved::of([other], 62.0).expect("looked at");
        assert!(moved.usual_ms.is_some() && moved.usual_server_cpu_ms.is_none());
    }
}
