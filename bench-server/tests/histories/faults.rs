//! What happens to the server while clients ask.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::peer::Server;
use crate::proxy::Proxy;
use crate::rng::Rng;
use crate::run::Shared;

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    None,
    /// `kill -9`, and a start at the same address.
    Kill,
    /// SIGSTOP and SIGCONT; all connections closed, and refused for a while.
    PauseAndCut,
}

fn some_milliseconds(rng: &mut Rng, least: u64, most: usize) -> Duration {
    Duration::from_millis(least + rng.below(most) as u64)
}

/// Makes faults until the run's time is up; afterwards the server serves. Blocks.
///
/// # Errors
/// A line when the server does not start again.
pub(crate) fn run(
    faults: Faults,
    shared: &Arc<Shared>,
    server: &mut Server,
    proxy: &Proxy,
    seed: u64,
) -> Result<(), String> {
    let mut rng = Rng(seed);
    loop {
        // A fault more than half a second before the end, so that clients see the server after it.
        let calm = some_milliseconds(&mut rng, 200, 400);
        sleep(calm.min(shared.left()));
        if shared.left() < Duration::from_millis(500) {
            return Ok(());
        }
        match (faults, rng.one_in(2)) {
            (Faults::None, _) => {}
            (Faults::Kill, _) => {
                server.kill();
                sleep(some_milliseconds(&mut rng, 0, 100));
                server.start_again()?;
            }
            (Faults::PauseAndCut, true) => {
                server.signal(Signal::SIGSTOP);
                sleep(some_milliseconds(&mut rng, 20, 700));
                server.signal(Signal::SIGCONT);
            }
            (Faults::PauseAndCut, false) => {
                proxy.cut();
                sleep(some_milliseconds(&mut rng, 0, 100));
                proxy.restore();
            }
        }
    }
}
