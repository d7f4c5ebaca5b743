//! The rounds of the measured phase one by one, and where the cores were meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::result::Round;
use crate::sample::{CoreDistance, CoresError, Watch};

/// How often it is looked where the cores are while whole lists run. The host moves them for tenths of a second and longer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// When it is looked where the cores are.
#[derive(Debug, Clone, Copy)]
pub(in crate::run::row) enum Looks {
    /// Before, all the time, and after: whole lists, which 30 to 150 µs do not change. Rounds that are over sooner than the
    /// first look within them have those at their ends.
    Throughout,
    /// Before and after: small requests wait for a look, and their tail is what is asked for (docs/performance.md).
    AtItsEnds,
}

/// Rounds that have ended, and the one under way.
pub(super) struct Rounds {
    cores: Option<Arc<CoreDistance>>,
    open: Option<Open>,
    ended: Vec<Round>,
}

struct Open {
    cores: CoresWatch,
    server_cpu: Option<Duration>,
    begun: Instant,
}

/// Looks at the cores, which end when it is dropped. Where nobody can look it holds nothing.
pub(in crate::run::row) struct CoresWatch(Option<Watch>);

impl CoresWatch {
    /// What was seen of the cores, as [`Round::core_looks_ns`].
    pub(in crate::run::row) async fn seen_ns(self) -> Option<Vec<f64>> {
        let seen = told(self.0?.seen().await)?;
        let nanoseconds = seen.iter().map(|time| time.as_nanos() as f64);
        Some(nanoseconds.collect())
    }
}

/// What a look came to; why there is none is logged, and the round has no looks.
fn told<T>(outcome: Result<T, CoresError>) -> Option<T> {
    outcome
        .inspect_err(|error| tracing::warn!("not told where the cores are: {error}"))
        .ok()
}

impl Rounds {
    /// No rounds yet. Without `cores` nothing is known of them.
    pub(super) fn new(cores: Option<Arc<CoreDistance>>) -> Self {
        Self {
            cores,
            open: None,
            ended: Vec::new(),
        }
    }

    /// Begins a round; `server_cpu` answers the CPU time of all servers until now. One that is under way is none.
    pub(super) async fn begin(
        &mut self,
        looks: Looks,
        server_cpu: impl FnOnce() -> Option<Duration>,
    ) {
        let cores = self.watch_cores(looks).await;
        if cores.0.is_none() {
            // Nor would they answer the next time, and every time it takes a while to know that.
            self.cores = None;
        }
        self.open = Some(Open {
            cores,
            server_cpu: server_cpu(),
            begun: Instant::now(),
        });
    }

    /// Ends it; one that is not `whole` is not kept.
    pub(super) async fn end(&mut self, whole: bool, server_cpu: impl FnOnce() -> Option<Duration>) {
        let Some(open) = self.open.take().filter(|_| whole) else {
            return;
        };
        let took = open.begun.elapsed();
        let used = server_cpu().zip(open.server_cpu);
        self.ended.push(Round {
            ms: took.as_secs_f64() * 1e3,
            server_cpu_ms: used
                .map(|(after, before)| after.saturating_sub(before).as_secs_f64() * 1e3),
            core_looks_ns: open.cores.seen_ns().await,
        });
    }

    /// Looks where the cores are from now on.
    pub(super) async fn watch_cores(&self, looks: Looks) -> CoresWatch {
        let every = match looks {
            Looks::Throughout => Some(LOOK_EVERY),
            Looks::AtItsEnds => None,
        };
        match &self.cores {
            Some(cores) => CoresWatch(told(cores.watch(every).await)),
            None => CoresWatch(None),
        }
    }

    /// Those that have ended; one under way is none.
    pub(super) fn take(&mut self) -> Vec<Round> {
        self.open = None;
        std::mem::take(&mut self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_whole_rounds_are_kept() {
        let mut rounds = Rounds::new(None);
        let cpu = |ms| move || Some(Duration::from_millis(ms));
        rounds.begin(Looks::Throughout, cpu(10)).await;
        rounds.end(false, cpu(20)).await;
        rounds.begin(Looks::Throughout, cpu(30)).await;
        rounds.end(true, cpu(34)).await;
        rounds.end(true, cpu(99)).await;
        rounds.begin(Looks::AtItsEnds, cpu(50)).await;
        let kept = rounds.take();
        rounds.end(true, cpu(60)).await;
        assert_eq!(rounds.take(), [], "what was under way is none");
        let [round] = &kept[..] else {
            panic!("{kept:?}");
        };
        assert_eq!(round.server_cpu_ms, Some(4.0));
        assert_eq!(round.core_looks_ns, None);
    }
}
