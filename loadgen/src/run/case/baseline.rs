//! Lists interleaved with a baseline: the same number of bytes from one contiguous buffer, with the
//! same HTTP settings and over a plain socket. The baseline follows the measured phase, so none of
//! it is in the case's own measurements. The buffer belongs to a separate process, which ends with
//! the baseline.

use std::time::Duration;

use load::clients::baseline::{BaselineClient, BaselineTransport, HttpSettings};
use load::driver::closed::{Clients, Job};
use load::operation::list::ListCase;
use measure::{Process, free_memory_bytes};
use report::result::{Baseline, BaselineRound, Transfer};
use workloads::Tier;

use super::meter::Meter;
use super::{CaseRun, EarlyEnd, Measured};
use crate::progress::Counted;
use crate::servers::baseline::BaselineServer;
use crate::servers::running::Running;

/// Rounds of a list, its baseline and its bytes over a socket, half of them in this order and half
/// in the reverse order.
const ROUNDS: u32 = 10;
/// Memory that must remain free beside the baseline's buffer.
const LEFT_FREE_BYTES: u64 = 512 << 20;

impl CaseRun<'_> {
    /// Measures the case's lists against a baseline, if the case asks for one. A target that
    /// loadgen did not start has none: the baseline runs over this machine's loopback interface,
    /// which is no lower bound for a server elsewhere.
    pub(super) async fn baseline(
        &self,
        clients: &Clients,
        case: &ListCase,
        running: &Running,
        meter: &Meter,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let bytes = measured.case.bytes;
        // An empty list has no bytes to send.
        if self.spec.baseline.is_none() || bytes == 0 || !self.target.spec.is_started() {
            return Ok(());
        }
        let title = format!("{}/{}: baseline", self.target.name, self.spec.name());
        if free_memory_bytes().is_ok_and(|free| free < bytes + LEFT_FREE_BYTES) {
            let text = format!("{title}: not measured, there is no memory for its {bytes} bytes");
            self.progress.say(&text);
            return Ok(());
        }
        let launcher = self.plan.launcher_of(self.scenario);
        let started = launcher.start_baseline(bytes);
        let started = self.unless_stopped(started).await?;
        let server = started.map_err(|e| EarlyEnd::Failed(e.to_string()))?;
        let rounds = self.interleaved(clients, case, running, meter, &server, bytes);
        let rounds = rounds.await;
        server.stop().await;
        measured.case.baseline = Baseline::of(bytes, rounds?);
        Ok(())
    }

    async fn interleaved(
        &self,
        clients: &Clients,
        case: &ListCase,
        running: &Running,
        meter: &Meter,
        server: &BaselineServer,
        bytes: u64,
    ) -> Result<Vec<BaselineRound>, EarlyEnd> {
        let like = match (self.tier, self.endpoint(running).etcd) {
            (Tier::Etcd, Some(config)) => HttpSettings::Etcd(Box::new(config)),
            _ => HttpSettings::Kube(case.parameters.options),
        };
        let process = Process::new(server.pid())?;
        let baseline = BaselineClient::connect(&server.url, server.socket, like, bytes);
        let baseline = self.unless_stopped(baseline).await??;
        let title = format!(
            "{}/{}: interleaved with its baseline",
            self.target.name,
            self.spec.name()
        );
        let phase = self.progress.phase(&title, ROUNDS.into(), Counted::Lists);
        // The first use of new connections and windows is not measured.
        for over in [BaselineTransport::Http, BaselineTransport::Socket] {
            self.unless_stopped(baseline.take(over)).await??;
        }
        let list = async || {
            let before = meter.cpu();
            let done = self.unless_stopped(clients.ask(0, Job::List)).await?;
            let after = meter.cpu();
            done.result?;
            Ok::<_, EarlyEnd>(transfer(done.latency, done.cpu, before, after))
        };
        let take = async |over| {
            let before = process.cpu().ok();
            let taken = self.unless_stopped(baseline.take(over)).await??;
            Ok::<_, EarlyEnd>(transfer(
                taken.latency,
                taken.cpu,
                before,
                process.cpu().ok(),
            ))
        };
        let mut rounds = Vec::new();
        for number in 0..ROUNDS {
            let list_first = number.is_multiple_of(2);
            let (list, body, socket) = if list_first {
                (
                    list().await?,
                    take(BaselineTransport::Http).await?,
                    take(BaselineTransport::Socket).await?,
                )
            } else {
                let socket = take(BaselineTransport::Socket).await?;
                let body = take(BaselineTransport::Http).await?;
                (list().await?, body, socket)
            };
            rounds.push(BaselineRound {
                list_first,
                list,
                body,
                socket: Some(socket),
            });
            phase.advance(1);
        }
        phase.done(&format!("{ROUNDS} lists and baselines"));
        Ok(rounds)
    }
}

fn transfer(
    latency: Duration,
    client: Duration,
    before: Option<Duration>,
    after: Option<Duration>,
) -> Transfer {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let server = before.zip(after);
    Transfer {
        ms: ms(latency),
        server_cpu_ms: server.map(|(before, after)| ms(after.saturating_sub(before))),
        client_cpu_ms: ms(client),
    }
}
