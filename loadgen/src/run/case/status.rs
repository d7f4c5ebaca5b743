//! The status of a case's loads while they are measured: a line every ten seconds, or each second
//! on a terminal.
//!
//! A separate task reads counters: it is neither the clock of a schedule nor one of its clients.
//! Quantiles are of the time since the previous line, rounded up to the next of twenty steps for
//! each power of ten.

use std::time::Duration;

use load::record::Counts;
use measure::Process;
use report::quantity::Quantity;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::task::AbortOnDropHandle;
use workloads::Profile;

use super::CaseRun;
use crate::live::{Labels, LiveLoad, LoadReader, Schedule};
use crate::progress::Phase;
use crate::servers::running::Running;

impl CaseRun<'_> {
    /// Registers a load of this case for the status lines and `/metrics`.
    pub(super) fn live(&self, load: &str, operation: &str) -> LiveLoad {
        self.progress.loads().add(Labels {
            scenario: self.scenario.name.clone(),
            data_set: self.data_set.clone(),
            target: self.target.name.clone(),
            case: self.spec.name(),
            load: load.to_owned(),
            operation: operation.to_owned(),
        })
    }

    /// Prints status lines of these loads until the returned handle is dropped.
    pub(super) fn tell_status(
        &self,
        phase: &Phase,
        loads: Vec<LiveLoad>,
        running: &Running,
    ) -> AbortOnDropHandle<()> {
        let processes = running.processes().iter();
        let servers = processes.filter_map(|child| {
            let process = Process::new(child.pid()).ok()?;
            let cpu = process.cpu().unwrap_or_default();
            Some(Server {
                name: child.name().to_owned(),
                process,
                cpu,
            })
        });
        let servers = servers.collect();
        AbortOnDropHandle::new(tokio::spawn(tell(phase.clone(), loads, servers)))
    }
}

/// Returns this generator's `part` of the schedule of a load that begins in `after` from now and
/// lasts for `lasts`.
pub(super) fn schedule(profile: &Profile, part: f64, after: Duration, lasts: Duration) -> Schedule {
    Schedule {
        profile: profile.clone(),
        part,
        begun: Instant::now() + after,
        lasts,
    }
}

/// A server that loadgen started, and its CPU time at the previous line.
struct Server {
    name: String,
    process: Process,
    cpu: Duration,
}

async fn tell(phase: Phase, loads: Vec<LiveLoad>, mut servers: Vec<Server>) {
    let begun = Instant::now();
    let loads = loads.into_iter();
    let mut loads: Vec<LoadReader> = loads.map(|load| LoadReader::new(load, begun)).collect();
    let every = phase.told_every();
    let mut ticks = interval_at(begun + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = begun;
    loop {
        ticks.tick().await;
        let now = Instant::now();
        let seconds = (now - before).as_secs_f64();
        before = now;
        let mut parts: Vec<String> = Vec::new();
        for load in &mut loads {
            let (new, due) = load.read(now);
            parts.push(of_load(load.name(), &new, due, seconds));
        }
        for server in &mut servers {
            // A server that has ended is detected elsewhere.
            let (Ok(memory), Ok(cpu)) = (server.process.memory(), server.process.cpu()) else {
                continue;
            };
            let used = cpu.saturating_sub(server.cpu).as_secs_f64();
            server.cpu = cpu;
            let memory = Quantity::bytes(memory.rss);
            parts.push(format!(
                "{} {memory}, {:.2} CPUs",
                server.name,
                used / seconds
            ));
        }
        phase.tell((now - begun).as_secs(), &parts.join("; "));
    }
}

/// Returns the status of a load over this many seconds.
fn of_load(name: &str, new: &Counts, due: Option<f64>, seconds: f64) -> String {
    let per_second = |count: f64| Quantity::PerSecond(count / seconds);
    if new.events() > 0 {
        return format!("{name} {} events", per_second(new.events() as f64));
    }
    let mut text = format!("{name} {}", per_second(new.ended() as f64));
    if let Some(due) = due {
        text.push_str(&format!(" of {}", per_second(due)));
    }
    for (quantile, shown) in [(0.5, "p50"), (0.99, "p99")] {
        if let Some(time) = new.quantile(quantile) {
            let time = Quantity::seconds(time.as_secs_f64());
            text.push_str(&format!(", {shown} {time}"));
        }
    }
    if new.errors() > 0 {
        text.push_str(&format!(", {} errors", Quantity::Count(new.errors())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::record::Live;

    #[test]
    fn a_load_says_what_it_achieved_of_what_was_due_how_fast_and_what_failed() {
        let live = Live::default();
        assert_eq!(
            of_load("gets", &live.read(), Some(0.0), 10.0),
            "gets 0/s of 0/s"
        );
        for _ in 0..2_000 {
            live.ended(Duration::from_micros(200));
        }
        let text = of_load("gets", &live.read(), Some(2_500.0), 10.0);
        assert_eq!(text, "gets 200/s of 250/s, p50 224 µs, p99 224 µs");
        live.failed(5);
        let text = of_load("gets", &live.read(), None, 10.0);
        assert_eq!(text, "gets 200/s, p50 224 µs, p99 224 µs, 5 errors");
        let live = Live::default();
        live.delivered(120);
        let text = of_load("watchers", &live.read(), None, 10.0);
        assert_eq!(text, "watchers 12.0/s events");
    }
}
