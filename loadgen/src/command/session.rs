//! Scenarios measured one after the other by one process, each with its result shown and saved.

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

/// What the scenarios of a command share.
pub(super) struct Session {
    isolation: Isolation,
    pub(super) progress: Progress,
    pub(super) stop: CancellationToken,
}

/// What became of a scenario that was begun.
pub(super) struct Measured {
    /// The end that it means by itself.
    pub(super) exit: Exit,
    /// Its folder and its report; `None` where nothing was measured, or it could not be saved.
    pub(super) saved: Option<(PathBuf, Report)>,
    /// Why the rest was not measured, shown or saved.
    pub(super) failure: Option<Failure>,
}

impl Session {
    /// Begins to listen for signals. Must be called within a runtime.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 where the system does not let it.
    pub(super) fn begin(isolation: Isolation) -> Result<Self, Failure> {
        let progress = Progress::new();
        let stop = stop_on_signals(&progress)?;
        Ok(Self {
            isolation,
            progress,
            stop,
        })
    }

    /// Measures one scenario, shows its result where a format is given, and saves it below `out`.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 where it cannot begin.
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
        // Shown first: where it cannot be saved, the table is all that is left of the run.
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

    /// Returns how what was measured ends: interrupted as well where the signal came while a result
    /// was saved, since what should have followed is missing.
    pub(super) fn end(&self, exit: Exit) -> Exit {
        match self.stop.is_cancelled() {
            true => exit.and(Exit::Interrupted),
            false => exit,
        }
    }

    /// Returns whether nothing else shall be measured: stopped from outside, or since a server with
    /// other people's data suffered.
    pub(super) fn is_over(&self, exit: Exit) -> bool {
        self.stop.is_cancelled() || exit == Exit::Protected
    }
}

/// Forgives an output that nobody reads any more: what was measured is kept in its folder, so a
/// reader who has seen enough changes nothing about how the command ends.
pub(super) fn unless_unread(shown: io::Result<()>) -> io::Result<()> {
    match shown {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown,
    }
}
