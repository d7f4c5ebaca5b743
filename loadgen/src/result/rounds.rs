//! The rounds of a row one by one, and in which of them the machine's cores were not where they usually are.

use serde::{Deserialize, Serialize};

use super::{Case, Spread};

/// By which factor a round trip differs from the usual one when cores have moved. As long as they stay, it is the same within a
/// tenth; threads of one core have half of it, cores without a common cache three times as much and more.
const MOVED: f64 = 1.5;
/// A look stands for the time until the next, but not for more milliseconds than this: hosts move cores for tenths of a second.
const STANDS_FOR_MS: f64 = 100.0;
/// Looks of a run that tell what is usual.
const LEAST_LOOKS: usize = 8;

/// One measured round: every client has its list, or its requests. Rounds in which something failed, and one that was stopped,
/// are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Round {
    /// Wall-clock time until the last client was done.
    pub ms: f64,
    /// CPU time of all servers meanwhile; null where none of them is ours.
    pub server_cpu_ms: Option<f64>,
    /// In how many nanoseconds a cache line went from the first core to the one that is farthest from it and back: at each look,
    /// from right before the round to right after it. Null where nobody can look: see [`super::Environment::core_round_trip_ns`].
    /// Results of before 2026-11-23T02 have the shortest and the longest of them, as `core_round_trip_ns`.
    #[serde(alias = "core_round_trip_ns")]
    pub core_looks_ns: Option<Vec<f64>>,
}

/// In how many rounds the cores had moved: at one look at least a cache line took over 1.5 times as long as it usually does in
/// this run from one to the other and back, or under 2/3 of it. The host of a virtual machine runs its CPUs where it likes: on
/// cores without a common cache whatever goes from one to the other is slower, and on the two threads of one core everything is.
/// Such rounds are part of all figures; this says what the others came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Moved {
    /// Rounds in which they had.
    pub rounds: u32,
    /// All rounds that were looked at.
    pub of: u32,
    /// Looks at which they had: one of a long round's many says less of it than all of them.
    #[serde(default)]
    pub looks: u32,
    /// All looks; 0 in results that did not count them.
    #[serde(default)]
    pub of_looks: u32,
    /// Time of the other rounds; null without any.
    pub usual_ms: Option<Spread>,
    /// CPU time of all servers in the other rounds.
    pub usual_server_cpu_ms: Option<Spread>,
}

impl Moved {
    /// Of these rounds, where a cache line usually takes so long. `None` where none was looked at.
    #[must_use]
    pub fn of(rounds: &[Round], usual_ns: f64) -> Option<Self> {
        let is_usual = |ns: &&f64| (usual_ns / MOVED..=usual_ns * MOVED).contains(*ns);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut usual = Vec::new();
        let (mut looked_at, mut looks_elsewhere, mut all_looks) = (0, 0, 0);
        for round in rounds {
            let Some(looks) = &round.core_looks_ns else {
                continue;
            };
            let elsewhere = looks.len() - looks.iter().filter(is_usual).count();
            if elsewhere == 0 {
                usual.push(round);
            }
            looked_at += 1;
            looks_elsewhere += elsewhere;
            all_looks += looks.len();
        }
        let cpu: Option<Vec<f64>> = usual.iter().map(|round| round.server_cpu_ms).collect();
        (looked_at > 0).then(|| Self {
            rounds: count(looked_at - usual.len()),
            of: count(looked_at),
            looks: count(looks_elsewhere),
            of_looks: count(all_looks),
            usual_ms: Spread::of(usual.iter().map(|round| round.ms)),
            usual_server_cpu_ms: cpu.and_then(Spread::of),
        })
    }

    /// In words, where `rounds` says what they are; `None` where the cores stayed all the time.
    #[must_use]
    pub fn told_of(&self, rounds: &str) -> Option<String> {
        let Self { of, of_looks, .. } = self;
        if self.rounds == 0 {
            return None;
        }
        let mut told = format!("cores moved in {} of {of} {rounds}", self.rounds);
        if *of_looks > 0 {
            told.push_str(&format!(" ({} of {of_looks} looks)", self.looks));
        }
        Some(told)
    }
}

/// Notes in which rounds of these rows the cores had moved, the rounds taken by turns among them. Answers how long a cache line
/// usually took.
pub(super) fn mark_moved(cases: &mut [Case]) -> Option<f64> {
    let measured = cases.iter().flat_map(|case| &case.rounds);
    let measured = measured.map(|round| (round.ms, round.core_looks_ns.as_deref()));
    let turns = cases.iter().filter_map(|case| case.yardstick.as_ref());
    let turns = turns.flat_map(|yardstick| &yardstick.rounds);
    let turns = turns.map(|turn| (turn.list.ms + turn.body.ms, turn.core_looks_ns.as_deref()));
    let usual_ns = usual_ns(measured.chain(turns))?;
    for case in cases {
        case.moved = Moved::of(&case.rounds, usual_ns);
        if let Some(yardstick) = &mut case.yardstick {
            yardstick.moved = Moved::of(&yardstick.lists(), usual_ns);
        }
    }
    Some(usual_ns)
}

/// How long a cache line usually takes, in nanoseconds: the lower quartile of all looks, each by the time that it stands for,
/// so that a thousand short rounds weigh no more than the long ones of the same time. It holds where the cores were nearer than
/// usual for less than a quarter of that time and farther apart for less than three quarters. `None` with fewer than eight looks.
///
/// Rounds are their milliseconds and their looks.
fn usual_ns<'a>(rounds: impl Iterator<Item = (f64, Option<&'a [f64]>)>) -> Option<f64> {
    let mut looks = Vec::new();
    for (ms, seen) in rounds {
        let seen = seen.unwrap_or_default();
        let stands_for = (ms / seen.len() as f64).min(STANDS_FOR_MS);
        looks.extend(seen.iter().map(|&ns| (ns, stands_for)));
    }
    if looks.len() < LEAST_LOOKS {
        return None;
    }
    looks.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let quarter = looks.iter().map(|(_, ms)| ms).sum::<f64>() / 4.0;
    let mut passed = 0.0;
    let mut at_quarter = looks.iter().skip_while(|(_, ms)| {
        passed += ms;
        passed < quarter
    });
    at_quarter.next().map(|&(ns, _)| ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Outcome, Tier, Transfer, Yardstick, YardstickRound};

    fn round(ms: f64, looks: &[f64]) -> Round {
        Round {
            ms,
            server_cpu_ms: Some(ms / 2.0),
            core_looks_ns: Some(looks.to_vec()),
        }
    }

    fn usual_of(rounds: &[&[Round]]) -> Option<f64> {
        let rounds = rounds.iter().copied().flatten();
        usual_ns(rounds.map(|round| (round.ms, round.core_looks_ns.as_deref())))
    }

    #[test]
    fn rounds_whose_cores_were_elsewhere_are_told_from_the_others() {
        let rounds = [
            round(460.0, &[60.0, 62.0, 65.0]),
            round(1_000.0, &[62.0, 305.0, 301.0]),
            round(540.0, &[64.0, 29.0, 64.0]),
            round(470.0, &[62.0, 69.0, 64.0]),
        ];
        let usual = usual_of(&[&rounds]).expect("each was looked at");
        assert_eq!(usual, 62.0);
        let moved = Moved::of(&rounds, usual).expect("each was looked at");
        assert_eq!((moved.rounds, moved.of), (2, 4));
        assert_eq!((moved.looks, moved.of_looks), (3, 12));
        let told = "cores moved in 2 of 4 rounds (3 of 12 looks)";
        assert_eq!(moved.told_of("rounds").as_deref(), Some(told));
        let others = moved.usual_ms.expect("two rounds");
        assert_eq!((others.min, others.p50, others.max), (460.0, 465.0, 470.0));
        assert_eq!(moved.usual_server_cpu_ms.map(|cpu| cpu.p50), Some(232.5));
        let all = Moved::of(&[round(1.0, &[305.0, 305.0])], 62.0).expect("looked at");
        assert_eq!((all.rounds, all.of, all.usual_ms), (1, 1, None));
    }

    #[test]
    fn what_a_thousand_short_rounds_saw_weighs_no_more_than_their_time() {
        let long = vec![round(500.0, &[62.0; 6]); 20];
        let short = vec![round(2.0, &[30.0, 30.0]); 1_000];
        assert_eq!(usual_of(&[&long, &short]), Some(62.0));
        // Two looks at the ends of a long round do not tell what was between them.
        let sparse = vec![round(10_000.0, &[30.0, 30.0]); 5];
        assert_eq!(usual_of(&[&long, &sparse]), Some(62.0));
    }

    #[test]
    fn long_rounds_that_saw_both_take_the_near_one_for_usual() {
        let rounds = vec![
            round(
                800.0,
                &[62.0, 62.0, 64.0, 305.0, 305.0, 301.0, 301.0, 301.0]
            );
            3
        ];
        assert_eq!(usual_of(&[&rounds]), Some(62.0));
        assert_eq!(Moved::of(&rounds, 62.0).map(|moved| moved.rounds), Some(3));
    }

    #[test]
    fn most_of_a_run_may_have_distant_cores() {
        let far = vec![round(900.0, &[305.0; 9]); 7];
        let near = vec![round(460.0, &[64.0; 6]); 6];
        assert_eq!(usual_of(&[&far, &near]), Some(64.0));
    }

    #[test]
    fn rounds_by_turns_are_looked_at_and_marked_as_the_measured_ones() {
        let transfer = Transfer {
            ms: 300.0,
            server_cpu_ms: Some(450.0),
            client_cpu_ms: 300.0,
        };
        let turn = |looks: &[f64]| YardstickRound {
            list_first: true,
            list: transfer,
            body: transfer,
            socket: None,
            core_looks_ns: Some(looks.to_vec()),
        };
        let mut case = Case::new("pods", "bench", Tier::Etcd, "stream", Outcome::Measured);
        case.rounds = vec![round(1_600.0, &[305.0; 16])];
        let mut without_turns = case.clone();
        without_turns.rounds = vec![round(100.0, &[62.0])];
        // Looks at list and body stand for the time of both: of the list alone, 62 ns would be less than a quarter of all.
        let turns = vec![turn(&[62.0; 6]), turn(&[62.0, 305.0])];
        case.yardstick = Yardstick::of(true, 1, turns);
        let mut cases = [case, without_turns];
        assert_eq!(mark_moved(&mut cases), Some(62.0));
        let moved_in = |moved: Option<&Moved>| moved.map(|moved| (moved.rounds, moved.of));
        let [case, other] = &cases;
        assert_eq!(moved_in(case.moved.as_ref()), Some((1, 1)));
        let turns = case.yardstick.as_ref().and_then(|y| y.moved.as_ref());
        assert_eq!(moved_in(turns), Some((1, 2)));
        assert_eq!(case.all_moved().map(|moved| moved.rounds).sum::<u32>(), 2);
        assert_eq!(moved_in(other.moved.as_ref()), Some((0, 1)));
        assert!(other.yardstick.is_none());
    }

    /// As `report.json` of the first day had it.
    #[test]
    fn the_shortest_and_the_longest_of_older_results_are_two_looks() {
        let old = r#"{"ms": 460.0, "server_cpu_ms": null, "core_round_trip_ns": [62.0, 305.0]}"#;
        let round: Round = serde_json::from_str(old).expect("a round");
        assert_eq!(round.core_looks_ns.as_deref(), Some(&[62.0, 305.0][..]));
        let old = r#"{"rounds": 1, "of": 1, "usual_ms": null, "usual_server_cpu_ms": null}"#;
        let moved: Moved = serde_json::from_str(old).expect("rounds");
        assert_eq!(
            moved.told_of("rounds").as_deref(),
            Some("cores moved in 1 of 1 rounds")
        );
    }

    #[test]
    fn without_looks_or_with_few_nothing_is_said() {
        let unseen = Round {
            core_looks_ns: None,
            ..round(460.0, &[])
        };
        assert_eq!(usual_of(&[&vec![unseen.clone(); 20]]), None);
        assert_eq!(usual_of(&[&[round(460.0, &[62.0; LEAST_LOOKS - 1])]]), None);
        assert_eq!(
            usual_of(&[&[round(460.0, &[62.0; LEAST_LOOKS])]]),
            Some(62.0)
        );
        assert_eq!(Moved::of(&[], 62.0), None);
        assert_eq!(Moved::of(std::slice::from_ref(&unseen), 62.0), None);
        let mixed = [round(460.0, &[62.0, 305.0]), unseen];
        let moved = Moved::of(&mixed, 62.0).map(|moved| (moved.rounds, moved.of));
        assert_eq!(moved, Some((1, 1)), "of those that were looked at");
    }

    #[test]
    fn a_server_that_is_not_ours_has_no_cpu() {
        let other = Round {
            server_cpu_ms: None,
            ..round(460.0, &[62.0, 62.0])
        };
        let moved = Moved::of(&[other], 62.0).expect("looked at");
        assert!(moved.usual_ms.is_some() && moved.usual_server_cpu_ms.is_none());
    }
}
