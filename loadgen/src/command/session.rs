//! Measures scenarios one after the other in one process, and prints and saves the result of each.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ::report::result::{Report, ResultFolder, folder_name};
use tokio_util::sync::CancellationToken;
use workloads::Scenario;

use super::{save, show, stop_on_signals};
use crate::cli::{Format, shown_command};
use crate::environment::environment;
use crate::exit::{Exit, Failure};
use crate::isolation::Isolation;
use crate::progress::Progress;
use crate::run::{self, Finished, Plan};

/// The state that the scenarios of a command share.
pub(super) struct Session {
    isolation: Isolation,
    pub(super) progress: Progress,
    pub(super) stop: CancellationToken,
}

/// The outcome of a scenario that was started.
pub(super) struct Measured {
    /// The exit code that the scenario by itself would have.
    pub(super) exit: Exit,
    /// Its folder and its report; `None` if nothing was measured, or saving failed.
    pub(super) saved: Option<(PathBuf, Report)>,
    /// The error that kept something from being measured, printed or saved.
    pub(super) failure: Option<Failure>,
}

impl Session {
    /// Installs the signal handlers. Must be called within a runtime.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 if the system does not permit it.
    pub(super) fn begin(isolation: Isolation) -> Result<Self, Failure> {
        let progress = Progress::new();
        let stop = stop_on_signals(&progress)?;
        Ok(Self {
            isolation,
            progress,
            stop,
        })
    }

    /// Measures one scenario, prints its result if a format is given, and saves it below `out`.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 if it cannot start.
    pub(super) async fn measure(
        &self,
        plan: &Plan,
        scenario: &Scenario,
        out: &Path,
        format: Option<Format>,
    ) -> Result<Measured, Failure> {
        let Self {
            isolation,
            progress,
            stop,
        } = self;
        isolation.pin(scenario)?;
        let environment = environment(shown_command(std::env::args()));
        let environment = isolation.noted_in(environment, scenario);
        let name = plan.result_name(scenario);
        let name = folder_name(SystemTime::now(), &environment.host, &name);
        let folder = ResultFolder::create(out, &name).map_err(Failure::usage)?;
        let Finished {
            result,
            exit,
            failure,
        } = run::run(plan, scenario, environment, &folder, progress, stop).await;
        // Printed before it is saved: if saving fails, the table is all that is left of the run.
        let shown = format.map_or(Ok(()), |format| {
            unless_unread(show(&mut io::stdout(), format, &result.report))
        });
        let (saved, unsaved) = match save(&result, folder, progress) {
            Ok(folder) => (folder.map(|folder| (folder, result.report)), None),
            Err(error) => (None, Some(error)),
        };
        let errors = [failure, shown.err().map(Failure::from), unsaved];
        Ok(Measured {
            exit,
            saved,
            failure: errors.into_iter().flatten().reduce(Failure::and),
        })
    }

    /// Returns the final exit code. It includes an interruption if the signal arrived while a
    /// result was saved, since the scenarios after it are missing.
    pub(super) fn end(&self, exit: Exit) -> Exit {
        match self.stop.is_cancelled() {
            true => exit.and(Exit::Interrupted),
            false => exit,
        }
    }

    /// Returns whether to measure nothing else: after a signal, or since a server with other
    /// people's data suffered.
    pub(super) fn is_over(&self, exit: Exit) -> bool {
        self.stop.is_cancelled() || exit == Exit::Protected
    }
}

/// Ignores a closed output (`EPIPE`): the result is kept in its folder, so the exit code does not
/// change when a reader such as `head` closes the pipe.
pub(super) fn unless_unread(shown: io::Result<()>) -> io::Result<()> {
    match shown {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown,
    }
}
