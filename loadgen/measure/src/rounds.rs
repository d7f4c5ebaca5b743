//! Records the time and the servers' CPU time of each round of the measured phase.

use std::time::{Duration, Instant};

/// One round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Wall-clock time.
    pub took: Duration,
    /// CPU time of all servers during the round; `None` if loadgen started none of them.
    pub server_cpu: Option<Duration>,
}

/// The rounds that have ended, and an unfinished one.
#[derive(Debug, Default)]
pub struct Rounds {
    open: Option<Open>,
    ended: Vec<Round>,
}

#[derive(Debug)]
struct Open {
    server_cpu: Option<Duration>,
    begun: Instant,
}

impl Rounds {
    /// Begins a round; `server_cpu` is the CPU time of all servers until now. An unfinished round
    /// is dropped.
    pub fn begin(&mut self, server_cpu: Option<Duration>) {
        self.open = Some(Open {
            server_cpu,
            begun: Instant::now(),
        });
    }

    /// Ends the round, and drops it if it is not `whole`.
    pub fn end(&mut self, whole: bool, server_cpu: Option<Duration>) {
        let Some(open) = self.open.take().filter(|_| whole) else {
            return;
        };
        let used = server_cpu.zip(open.server_cpu);
        self.ended.push(Round {
            took: open.begun.elapsed(),
            server_cpu: used.map(|(after, before)| after.saturating_sub(before)),
        });
    }

    /// Returns the rounds that have ended. An unfinished round is dropped.
    #[must_use]
    pub fn take(&mut self) -> Vec<Round> {
        self.open = None;
        std::mem::take(&mut self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_rounds_are_kept() {
        let mut rounds = Rounds::default();
        let cpu = |ms| Some(Duration::from_millis(ms));
        rounds.begin(cpu(10));
        rounds.end(false, cpu(20));
        rounds.begin(cpu(30));
        rounds.end(true, cpu(34));
        rounds.end(true, cpu(99));
        rounds.begin(cpu(50));
        let kept = rounds.take();
        rounds.end(true, cpu(60));
        assert_eq!(rounds.take(), [], "what was under way is none");
        let [round] = &kept[..] else {
            panic!("{kept:?}");
        };
        assert_eq!(round.server_cpu, cpu(4));
    }
}
