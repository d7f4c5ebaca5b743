//! The cost of lists whose clients are separate programs, and of their verification, which follows
//! each round.

use std::sync::Arc;
use std::time::Duration;

use load::driver::closed::{Clients, Done, Job};
use report::result::Case;

use super::{CaseRun, EarlyEnd};

/// The separate client programs of a case.
#[derive(Debug, Default)]
pub(super) struct Programs {
    name: Option<Arc<str>>,
    lists_cpu: Duration,
    rss_peak: u64,
    /// CPU time of lists and verification.
    all_cpu: Duration,
    /// The time of verification, during which the servers did nothing.
    pub(super) checking: Duration,
}

impl Programs {
    /// Adds the cost of a list.
    pub(super) fn take_list(&mut self, done: &Done) {
        if let Some(cost) = &done.program {
            self.name = Some(Arc::clone(&cost.program));
            self.lists_cpu += cost.cpu;
            self.all_cpu += cost.cpu;
            self.rss_peak = self.rss_peak.max(cost.rss_peak);
        }
    }

    /// Adds the cost of a verification.
    pub(super) fn take_check(&mut self, done: &Done) {
        self.all_cpu += done
            .program
            .as_ref()
            .map_or(Duration::ZERO, |cost| cost.cpu);
    }

    /// Replaces the generator's measurements by those of the programs, for a phase that took
    /// `elapsed`. Changes nothing if the clients are not separate programs.
    pub(super) fn describe(&self, case: &mut Case, requests: u64, elapsed: Duration) {
        let (Some(name), Some(client)) = (&self.name, &mut case.client) else {
            return;
        };
        client.program = Some(name.to_string());
        let cpu_s = self.lists_cpu.as_secs_f64();
        client.cpu_s = Some(cpu_s);
        client.cpu_s_per_request = (requests > 0).then(|| cpu_s / requests as f64);
        client.rss_peak = Some(self.rss_peak);
        client.late_over_early = None;
        client.late_over_early_likely = None;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let part = self.all_cpu.as_secs_f64() / (elapsed.as_secs_f64() * cores as f64);
        // The programs' CPU time is not that of other processes.
        if let Some(machine) = &mut case.machine {
            machine.others_cpu_part = machine.others_cpu_part.map(|o| (o - part).max(0.0));
        }
    }
}

impl CaseRun<'_> {
    /// Verifies the lists of a round, if verification is not part of listing. Does nothing
    /// otherwise.
    pub(super) async fn check_round(&self, clients: &Clients) -> Result<Vec<Done>, EarlyEnd> {
        match self.strategy().go_client() {
            Some(_) => self.unless_stopped(clients.round(Job::Check)).await,
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use workloads::Tier;

    use super::*;
    use load::operation::list::attempts::Restarts;
    use load::operation::list::{ClientCost, ObjectTimes};
    use report::result::{ClientMetrics, MachineLoad, Outcome};

    fn done(cpu_ms: u64, rss_peak: u64) -> Done {
        Done {
            latency: Duration::from_millis(5),
            objects: ObjectTimes::default(),
            cpu: Duration::ZERO,
            memory: None,
            restarts: Restarts::default(),
            program: Some(ClientCost {
                program: "client 1".into(),
                latency: Duration::from_millis(5),
                cpu: Duration::from_millis(cpu_ms),
                rss_peak,
            }),
            result: Ok(None),
        }
    }

    /// Returns a case with these measurements of the generator.
    fn case(client: ClientMetrics, others_cpu_part: Option<f64>) -> Case {
        let outcome = Outcome::Measured;
        let mut case = Case::new("pods", "bench", Tier::Etcd, "clientv3:stream", outcome);
        case.client = Some(client);
        case.machine = Some(MachineLoad {
            others_cpu_part,
            ..MachineLoad::default()
        });
        case
    }

    #[test]
    fn lists_are_in_the_figures_and_checks_are_not() {
        let mut programs = Programs::default();
        programs.take_list(&done(300, 70));
        programs.take_check(&done(500, 900));
        programs.take_list(&done(100, 90));
        let generator = ClientMetrics {
            cpu_s: Some(7.0),
            rss_peak: Some(1_000),
            ..ClientMetrics::default()
        };
        let mut case = case(generator, Some(1.0));
        programs.describe(&mut case, 2, Duration::from_secs(100));
        let client = case.client.expect("it was there");
        assert_eq!(client.program.as_deref(), Some("client 1"));
        assert_eq!(
            (client.cpu_s, client.cpu_s_per_request),
            (Some(0.4), Some(0.2))
        );
        assert_eq!(client.rss_peak, Some(90));
        let others = case.machine.and_then(|machine| machine.others_cpu_part);
        let others = others.expect("it was known");
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        assert!(
            (others - (1.0 - 0.009 / cores as f64)).abs() < 1e-9,
            "{others}"
        );
    }

    #[test]
    fn without_programs_the_generators_figures_stay() {
        let generator = ClientMetrics {
            cpu_s: Some(7.0),
            ..ClientMetrics::default()
        };
        let mut case = case(generator, None);
        Programs::default().describe(&mut case, 2, Duration::from_secs(1));
        let client = case.client.expect("it was there");
        assert_eq!((client.cpu_s, client.program), (Some(7.0), None));
    }
}
