//! `loadgen suite`: measures several scenarios and judges their thresholds in one verdict.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use ::report::result::{Report, folder_name};
use ::report::suite::{self, SuiteResult, SuiteRun};
use ::report::terminal;
use anyhow::Context as _;
use workloads::{Scenario, Suite};

use super::runtime;
use super::session::{Measured, Session, unless_unread};
use crate::cli::{Format, RunArgs, SuiteArgs, SuiteFormat, shown_command};
use crate::environment::environment;
use crate::exit::{Exit, Failure};
use crate::isolation::Isolation;
use crate::run::{self, Plan};

/// Runs a suite, or lists all suites if none is named. Everything is checked before anything
/// starts.
///
/// # Errors
/// [`Failure`] with exit code 2 if the suite, a scenario or a target is not available. Later errors
/// are notes in the verdict, and part of the exit code.
pub(super) fn run(args: &SuiteArgs) -> Result<Exit, Failure> {
    let Some(name) = &args.name else {
        return list();
    };
    let suite = Suite::load(name).map_err(Failure::usage)?;
    let own_program = std::env::current_exe()
        .context("own program")
        .map_err(Failure::usage)?;
    let runs: Vec<RunArgs> = suite.runs.iter().map(|run| args.run_args(run)).collect();
    let plans = runs.iter().map(|run| Plan::new(run, None, &own_program));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    if args.dry_run {
        return dry_run(&plans);
    }
    let isolation = isolation(&runs, &plans, &own_program)?;
    let (result, exit) = runtime()?.block_on(async {
        let session = Session::begin(isolation)?;
        Ok::<_, Failure>(measure(args, &suite, &plans, &session).await)
    })?;
    unless_unread(show(args.format, &result))?;
    Ok(exit)
}

fn show(format: SuiteFormat, result: &SuiteResult) -> io::Result<()> {
    let mut out = io::stdout();
    match format {
        SuiteFormat::Text => write!(out, "\n{}", suite::text(result, terminal::width())),
        SuiteFormat::Markdown => write!(out, "{}", suite::markdown(result)),
        SuiteFormat::Json => {
            serde_json::to_writer_pretty(&mut out, result)?;
            writeln!(out)
        }
    }
}

/// Prints the suites, one line each.
fn list() -> Result<Exit, Failure> {
    let suites = workloads::suite::built_in();
    let widest = suites.iter().map(|suite| suite.name.len()).max();
    let widest = widest.unwrap_or_default();
    let mut out = io::stdout();
    for Suite { name, summary, .. } in &suites {
        writeln!(out, "{name:widest$}  {summary}")?;
    }
    Ok(Exit::Done)
}

fn dry_run(plans: &[Plan]) -> Result<Exit, Failure> {
    let mut out = io::stdout();
    let runtime = runtime()?;
    for plan in plans {
        for scenario in &plan.scenarios {
            writeln!(out, "{}:", scenario.name)?;
        }
        writeln!(out, "{}", plan.dry_run())?;
        for line in runtime.block_on(run::survey(plan))? {
            writeln!(out, "{line}")?;
        }
    }
    Ok(Exit::Done)
}

/// Enters the isolation that the first run asks for, which all runs have in common, with the
/// targets of all. No other thread exists yet, so what is set for this thread holds for all.
fn isolation(runs: &[RunArgs], plans: &[Plan], own_program: &Path) -> Result<Isolation, Failure> {
    let targets = plans.iter().flat_map(|plan| &plan.targets);
    let targets: Vec<_> = targets.map(|target| target.spec.clone()).collect();
    let isolation = Isolation::enter(&runs[0], &targets, own_program)?;
    isolation.pin(&plans[0].scenarios[0])?;
    Ok(isolation)
}

/// Runs the scenarios one after the other, until the end or until stopped, and saves the verdict. A
/// run that fails does not end the suite.
async fn measure(
    args: &SuiteArgs,
    suite: &Suite,
    plans: &[Plan],
    session: &Session,
) -> (SuiteResult, Exit) {
    let (begun, started) = (Instant::now(), SystemTime::now());
    let mut exit = Exit::Done;
    let mut result = SuiteResult {
        schema_version: suite::SCHEMA_VERSION,
        suite: suite.name.clone(),
        started: humantime::format_rfc3339_millis(started).to_string(),
        elapsed_s: 0.0,
        command: shown_command(std::env::args()),
        small: args.small,
        interrupted: false,
        runs: Vec::new(),
        notes: Vec::new(),
        thresholds: Vec::new(),
    };
    let mut saved: Vec<(PathBuf, Report)> = Vec::new();
    let format = (args.format == SuiteFormat::Text).then_some(Format::Text);
    let scenarios = plans
        .iter()
        .flat_map(|plan| plan.scenarios.iter().map(move |scenario| (plan, scenario)));
    for (plan, scenario) in scenarios {
        plan.notes
            .iter()
            .for_each(|note| session.progress.say(note));
        let measured = session.measure(plan, scenario, &args.out, format).await;
        let measured = measured.unwrap_or_else(|failure| Measured {
            exit: failure.exit,
            saved: None,
            failure: Some(failure),
        });
        let ended = take(measured, scenario, &mut result, &mut saved);
        exit = exit.and(ended);
        if session.is_over(ended) {
            break;
        }
    }
    if saved
        .iter()
        .any(|(_, report)| report.environment.profile == "debug")
    {
        let note = "The generator was a debug build: its figures say nothing about a target.";
        result.notes.push(note.to_owned());
    }
    result.interrupted = session.stop.is_cancelled();
    result.elapsed_s = begun.elapsed().as_secs_f64();
    result.judge(
        saved
            .iter()
            .map(|(folder, report)| (folder.as_path(), report)),
    );
    let exit = session.end(exit.and(end_of(&result)));
    let host = environment(Vec::new()).host;
    let folder = args.out.join(folder_name(started, &host, &suite.name));
    let exit = match suite::save(&result, &folder) {
        Ok(()) => {
            session
                .progress
                .say(&format!("suite: {}", folder.display()));
            exit
        }
        // The verdict is printed even so.
        Err(error) => {
            result.notes.push(format!("not saved: {error}"));
            exit.and(Exit::Usage)
        }
    };
    (result, exit)
}

/// Records the outcome of a run, and returns its exit code.
fn take(
    measured: Measured,
    scenario: &Scenario,
    result: &mut SuiteResult,
    saved: &mut Vec<(PathBuf, Report)>,
) -> Exit {
    let mut exit = measured.exit;
    if let Some(failure) = &measured.failure {
        exit = exit.and(failure.exit);
        result.notes.push(format!("{}: {failure}", scenario.name));
    } else if exit != Exit::Done {
        let note = format!("{} ended with exit code {}", scenario.name, exit as u8);
        result.notes.push(note);
    }
    let folder = measured
        .saved
        .as_ref()
        .and_then(|(path, _)| path.file_name());
    result.runs.push(SuiteRun {
        scenario: scenario.name.clone(),
        folder: folder.map(|name| name.to_string_lossy().into_owned()),
        exit: Some(exit as u8),
    });
    saved.extend(measured.saved);
    exit
}

/// Returns the exit code of the thresholds: a missed one is a failed target, one without a verdict
/// an invalid run.
fn end_of(result: &SuiteResult) -> Exit {
    let verdict = result.verdict();
    match verdict {
        _ if verdict.missed > 0 => Exit::TargetFailed,
        _ if verdict.undecided + verdict.unmeasured > 0 => Exit::Invalid,
        _ => Exit::Done,
    }
}
