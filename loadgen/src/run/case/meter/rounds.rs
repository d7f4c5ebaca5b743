//! The rounds of the measured phase one by one: time and the servers' CPU.

use std::time::{Duration, Instant};

use report::result::Round;

/// Rounds that have ended, and the one under way.
#[derive(Default)]
pub(super) struct Rounds {
    open: Option<Open>,
    ended: Vec<Round>,
}

struct Open {
    server_cpu: Option<Duration>,
    begun: Instant,
}

impl Rounds {
    /// Begins a round; `server_cpu` is the CPU time of all servers until now. One that is under way is dropped.
    pub(super) fn begin(&mut self, server_cpu: Option<Duration>) {
        self.open = Some(Open {
            server_cpu,
            begun: Instant::now(),
        });
    }

    /// Ends it; one that is not `whole` is not kept.
    pub(super) fn end(&mut self, whole: bool, server_cpu: Option<Duration>) {
        let Some(open) = self.open.take().filter(|_| whole) else {
            return;
        };
        let took = open.begun.elapsed();
        let used = server_cpu.zip(open.server_cpu);
        self.ended.push(Round {
            ms: took.as_secs_f64() * 1e3,
            server_cpu_ms: used
                .map(|(after, before)| after.saturating_sub(before).as_secs_f64() * 1e3),
        });
    }

    /// Those that have ended; one under way is dropped.
    pub(super) fn take(&mut self) -> Vec<Round> {
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
        assert_eq!(round.server_cpu_ms, Some(4.0));
    }
}
