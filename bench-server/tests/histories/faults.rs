//! Faults of the servers while clients send requests.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::members::Member;
use crate::peer::Server;
use crate::run::Shared;
use test_support::rng::Rng;

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    None,
    /// `kill -9`, and a restart at the same address.
    Kill,
    /// SIGSTOP and SIGCONT; or all connections are closed, and new ones refused for a while.
    PauseAndCut,
}

fn some_milliseconds(rng: &mut Rng, least: u64, most: usize) -> Duration {
    Duration::from_millis(least + rng.below(most) as u64)
}

fn signal(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("our own process");
}

/// Causes faults, each of one random server, until the run's time is over. All servers run when
/// this returns. Blocks.
///
/// # Errors
/// A message if the server does not start again, or if the run was too short for a fault: it would
/// not test faults.
pub(crate) fn run(
    faults: Faults,
    shared: &Arc<Shared>,
    members: &mut [Member],
    seed: u64,
) -> Result<(), String> {
    let mut rng = Rng(seed);
    let mut made = 0;
    loop {
        // Faults are more than half a second before the end, so that clients use the server after
        // each.
        let calm = some_milliseconds(&mut rng, 200, 400);
        sleep(calm.min(shared.left()));
        if shared.left() < Duration::from_millis(500) {
            return match made == 0 && faults != Faults::None {
                true => Err("no fault was made in the time of the run".to_owned()),
                false => Ok(()),
            };
        }
        made += 1;
        let nth = rng.below(members.len());
        let Member { server, proxy } = &mut members[nth];
        match (faults, rng.one_in(2)) {
            (Faults::None, _) => {}
            (Faults::Kill, _) => {
                server.kill();
                sleep(some_milliseconds(&mut rng, 0, 100));
                server.start_again()?;
            }
            (Faults::PauseAndCut, true) => {
                signal(server, Signal::SIGSTOP);
                sleep(some_milliseconds(&mut rng, 20, 700));
                signal(server, Signal::SIGCONT);
            }
            (Faults::PauseAndCut, false) => {
                proxy.cut();
                sleep(some_milliseconds(&mut rng, 0, 100));
                proxy.restore();
            }
        }
    }
}
