//! Lists by turns with as many bytes as one body without meaning: what listing costs beyond the transport, between the same
//! two processes and within the same second. It follows the measured phase, so none of it is in the row's own figures.

use workloads::scenario::Yardstick as Reading;

use super::drained::by_turns;
use super::meter::Meter;
use super::{Early, Measured, RowRun};
use crate::pace::closed::{Clients, Job};
use crate::progress::Counted;
use crate::result::{Transfer, Yardstick, YardstickRound};
use crate::target::Running;
use crate::target::list::Row;

/// Rounds of one list and one body: as many with the one first as with the other.
const ROUNDS: u32 = 10;

impl RowRun<'_> {
    /// Measures the row's lists against their bytes, where the row wants it and the target sends such bodies.
    pub(super) async fn yardstick(
        &self,
        clients: &Clients,
        row: &Row,
        running: &Running,
        meter: &Meter,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let bytes = measured.case.bytes;
        let Some(reading) = self.spec.yardstick else {
            return Ok(());
        };
        // An empty store has no bytes to send.
        if bytes == 0 || !row.has_opaque(running) {
            return Ok(());
        }
        let list = match reading {
            Reading::Checked => Job::List,
            Reading::Drained => Job::Drain,
        };
        let title = format!("{}/{}: by turns", self.target.name, self.spec.name());
        let phase = self.progress.phase(&title, ROUNDS.into(), Counted::Lists);
        let mut rounds = Vec::new();
        for number in 0..ROUNDS {
            let of = |job| self.transfer(clients, meter, job);
            let list_first = number.is_multiple_of(2);
            let (list, body) = by_turns(list_first, of(list), of(Job::Opaque(bytes))).await?;
            rounds.push(YardstickRound {
                list_first,
                list,
                body,
            });
            phase.advance(1);
        }
        phase.done(&format!("{ROUNDS} lists and bodies"));
        measured.case.yardstick = Yardstick::of(reading == Reading::Checked, bytes, rounds);
        Ok(())
    }

    /// One of the two, by the first client while the others wait.
    async fn transfer(
        &self,
        clients: &Clients,
        meter: &Meter,
        job: Job,
    ) -> Result<Transfer, Early> {
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let before = meter.cpu();
        let done = self.unless_stopped(clients.ask(0, job)).await?;
        let server = before.zip(meter.cpu());
        done.result?;
        Ok(Transfer {
            ms: ms(done.latency),
            server_cpu_ms: server.map(|(before, after)| ms(after.saturating_sub(before))),
            client_cpu_ms: ms(done.cpu),
        })
    }
}
