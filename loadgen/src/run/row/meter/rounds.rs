//! The rounds of the measured phase one by one, and where the cores were meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::result::Round;
use crate::sample::CoreDistance;

/// How often it is looked where the cores are while whole lists run. The host moves them for tenths of a second and longer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// When it is looked where the cores are.
#[derive(Debug, Clone, Copy)]
pub(in crate::run::row) enum Looks {
    /// Before, all the time, and after: whole lists, which 30 to 150 µs do not change.
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
    server_cpu: Option<Duration>,
    begun: Instant,
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

    /// Begins a round; `server_cpu` answers the CPU time of all servers until now.
    pub(super) async fn begin(
        &mut self,
        looks: Looks,
        server_cpu: impl FnOnce() -> Option<Duration>,
    ) {
        self.watch_cores(looks).await;
        self.open = Some(Open {
            server_cpu: server_cpu(),
            begun: Instant::now(),
        });
    }

    /// Ends it; without one, nothing.
    pub(super) async fn end(&mut self, server_cpu: impl FnOnce() -> Option<Duration>) {
        let Some(open) = self.open.take() else {
            return;
        };
        let took = open.begun.elapsed();
        let used = server_cpu().zip(open.server_cpu);
        self.ended.push(Round {
            ms: took.as_secs_f64() * 1e3,
            server_cpu_ms: used
                .map(|(after, before)| after.saturating_sub(before).as_secs_f64() * 1e3),
            core_round_trip_ns: self.core_round_trip_ns().await,
        });
    }

    /// Looks where the cores are from now on.
    pub(super) async fn watch_cores(&self, looks: Looks) {
        if let Some(cores) = &self.cores {
            let every = match looks {
                Looks::Throughout => Some(LOOK_EVERY),
                Looks::AtItsEnds => None,
            };
            cores.watch(every).await;
        }
    }

    /// What was seen of them since, as [`Round::core_round_trip_ns`].
    pub(super) async fn core_round_trip_ns(&self) -> Option<[f64; 2]> {
        let seen = self.cores.as_ref()?.seen().await?;
        Some([seen.shortest, seen.longest].map(|time| time.as_nanos() as f64))
    }

    /// Those that have ended.
    pub(super) fn take(&mut self) -> Vec<Round> {
        std::mem::take(&mut self.ended)
    }
}
