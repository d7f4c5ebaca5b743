//! The commands: what [`crate::cli`] names, put together from the parts.

use std::io::Write as _;
use std::time::SystemTime;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::{Format, RunArgs, shown_command};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::result::{ResultFolder, folder_name};
use crate::run::{self, Finished, Plan};
use crate::sample;

/// `loadgen run`.
///
/// # Errors
/// [`Failure`] with the exit code that it means.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let own_program = std::env::current_exe()
        .context("own program")
        .map_err(Failure::usage)?;
    let plan = Plan::new(args, &own_program)?;
    let mut out = std::io::stdout();
    if args.dry_run {
        writeln!(out, "{}", plan.dry_run())?;
        return Ok(Exit::Done);
    }
    let runtime = tokio::runtime::Runtime::new()
        .context("cannot start a runtime")
        .map_err(Failure::usage)?;
    runtime.block_on(async {
        let stop = stop_on_signals()?;
        let progress = Progress::new();
        let mut exit = Exit::Done;
        for scenario in &plan.scenarios {
            let environment = sample::environment(shown_command(std::env::args()));
            let name = folder_name(SystemTime::now(), &environment.host, &scenario.name);
            let folder = ResultFolder::create(&args.out, &name).map_err(Failure::usage)?;
            let finished = run::run(&plan, scenario, environment, &progress, &stop).await;
            let Finished {
                result,
                exit: ended,
            } = match finished {
                Ok(finished) => finished,
                Err(failure) => {
                    folder.discard().map_err(Failure::usage)?;
                    return Err(failure);
                }
            };
            if result.report.cases.is_empty() {
                folder.discard().map_err(Failure::usage)?;
            } else {
                folder.write(&result).map_err(Failure::usage)?;
                let path = folder.finish().map_err(Failure::usage)?;
                progress.say(&format!("result: {}", path.display()));
            }
            if args.format == Format::Json {
                serde_json::to_writer_pretty(&mut out, &result.report)
                    .map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
            exit = exit.and(ended);
            if stop.is_cancelled() {
                break;
            }
        }
        Ok(exit)
    })
}

/// A token that Ctrl-C and SIGTERM cancel.
fn stop_on_signals() -> Result<CancellationToken, Failure> {
    let failed = |error| Failure::usage(anyhow::Error::new(error).context("signal handler"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(stop)
}
