//! `loadgen ab`: measures two targets in pairs, saves the result, and prints the verdict.

use std::collections::HashSet;
use std::io::Write as _;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use report::compare::annotations::annotations;
use report::compare::{Comparison, Line};
use report::result::{ResultFolder, folder_name};
use tokio_util::sync::CancellationToken;
use workloads::Scenario;

use super::{compare, metrics_listener, save, serve_metrics, stop_on_signals};
use crate::cli::{AbArgs, RunArgs, shown_command};
use crate::environment::environment;
use crate::exit::{Exit, Failure};
use crate::isolation::Isolation;
use crate::progress::Progress;
use crate::run::Plan;
use crate::run::ab::{self, Ab, Worse};

/// The number of objects if neither a scenario nor their number is given: a pair of starts then
/// takes less than half a minute.
const OBJECTS: u64 = 10_000;
/// The number of lists per start in that case. They take about a second, as starting and seeding
/// do, and their median varies less from start to start than that of a few: 40 lists of 30 ms found
/// a difference of a tenth in 7 pairs, and 5 lists did not in 13.
const REPEATS: u32 = 40;

/// Measures and compares the two targets, and measures the cases that are worse again if
/// `--confirm` is set.
///
/// # Errors
/// If the arguments cannot be carried out, or the result cannot be saved.
pub(super) fn run(args: &AbArgs) -> Result<Exit, Failure> {
    let own_program = std::env::current_exe()
        .context("own program")
        .map_err(Failure::usage)?;
    let mut run = args.run.clone();
    if run.scenarios.is_empty() {
        run.scenarios = vec![workloads::scenario::DEFAULT.to_owned()];
        run.objects = run.objects.or(Some(OBJECTS));
        run.repeats = run.repeats.or(Some(REPEATS));
    }
    let plan = Plan::of_sides(args, &run, &own_program)?;
    let [scenario] = &plan.scenarios[..] else {
        return Err(Failure::usage(anyhow!(
            "ab takes one scenario, not {}",
            plan.scenarios.len()
        )));
    };
    let mut out = std::io::stdout();
    if run.dry_run {
        writeln!(out, "{}", plan.dry_run())?;
        return Ok(Exit::Done);
    }
    let targets: Vec<_> = plan.targets.iter().map(|t| t.spec.clone()).collect();
    let metrics = metrics_listener(&run)?;
    // No other thread exists yet, so what is set for this thread holds for all.
    let isolation = Isolation::enter(&run, &targets, &own_program)?;
    isolation.pin(scenario)?;
    let runtime = tokio::runtime::Runtime::new()
        .context("cannot start a runtime")
        .map_err(Failure::usage)?;
    runtime.block_on(async {
        let progress = Progress::new();
        let stop = stop_on_signals(&progress)?;
        serve_metrics(metrics, &progress);
        plan.notes.iter().for_each(|note| progress.say(note));
        if run.repeats.is_none() && scenario.loads.is_empty() && scenario.repeats < REPEATS {
            progress.say(&format!(
                "{} lists of a start, as {} has it: with --repeats {REPEATS} starts differ less, and fewer pairs tell",
                scenario.repeats, scenario.name
            ));
        }
        let ab = Ab {
            within: args.within,
            seed: run.seed.unwrap_or(scenario.data_sets[0].seed),
            options: args.verdict.options(Vec::new()),
        };
        let session = Session {
            args,
            run: &run,
            plan: &plan,
            scenario,
            isolation: &isolation,
            progress: &progress,
            stop: &stop,
        };
        let first = session.measure(&ab, None).await?;
        if !args.confirm || first.exit != Exit::TargetFailed || first.worse.is_empty() {
            session.annotate(first.comparison.as_ref());
            return Ok(first.exit);
        }
        session.confirm(ab, first).await
    })
}

/// The state that all comparisons of the command share.
struct Session<'a> {
    args: &'a AbArgs,
    run: &'a RunArgs,
    plan: &'a Plan,
    scenario: &'a Scenario,
    isolation: &'a Isolation,
    progress: &'a Progress,
    stop: &'a CancellationToken,
}

/// The result of one comparison.
struct Measured {
    exit: Exit,
    /// `None` if nothing was measured that could be compared.
    comparison: Option<Comparison>,
    worse: Worse,
}

impl Session<'_> {
    /// Measures all cases, or only those in `again`, saves the result, and prints the verdict.
    async fn measure(&self, ab: &Ab, again: Option<&Worse>) -> Result<Measured, Failure> {
        let environment = environment(shown_command(std::env::args()));
        let environment = self.isolation.noted_in(environment, self.scenario);
        let name = folder_name(SystemTime::now(), &environment.host, &self.scenario.name);
        let folder = ResultFolder::create(&self.run.out, &name).map_err(Failure::usage)?;
        let compared = ab::run(
            self.plan,
            ab,
            again,
            self.scenario,
            environment,
            &folder,
            self.progress,
            self.stop,
        )
        .await;
        if let Some(comparison) = &compared.comparison {
            let text = compare::shown(comparison, self.args.show)?;
            std::io::stdout().write_all(text.as_bytes())?;
        }
        let exit = compared.finished.exit;
        let saved = save(&compared.finished.result, folder, self.progress);
        saved.map_err(|error| error.beside(exit))?;
        match compared.finished.failure {
            Some(failure) => Err(failure.beside(exit)),
            None => Ok(Measured {
                exit,
                comparison: compared.comparison,
                worse: compared.worse,
            }),
        }
    }

    /// Measures the cases that were worse again. A metric is confirmed as worse if it is worse both
    /// times.
    async fn confirm(&self, ab: Ab, first: Measured) -> Result<Exit, Failure> {
        self.progress.say(&format!(
            "measured again, since worse: {} cases",
            first.worse.len()
        ));
        let again = Ab {
            // A different order of starts from the first measurement.
            seed: ab.seed.wrapping_add(1),
            ..ab
        };
        let second = self.measure(&again, Some(&first.worse)).await?;
        if matches!(second.exit, Exit::Interrupted | Exit::Usage) {
            return Ok(second.exit);
        }
        let is_confirmed = match (&first.comparison, &second.comparison) {
            (Some(first), Some(second)) => confirmed(first, second),
            _ => Vec::new(),
        };
        self.progress.say(&match is_confirmed.is_empty() {
            true => "worse once, and not again: cannot tell".to_owned(),
            false => format!("worse twice: {}", is_confirmed.join(", ")),
        });
        let second = second.comparison.map(|mut second| {
            second
                .lines
                .retain(|line| is_confirmed.contains(&named(line)));
            second
        });
        self.annotate(second.as_ref());
        let has_gone = first.comparison.is_some_and(|first| !first.gone.is_empty());
        Ok(match is_confirmed.is_empty() && !has_gone {
            true => Exit::Invalid,
            false => Exit::TargetFailed,
        })
    }

    /// Prints the worse lines as annotations, if `--annotate` is set.
    fn annotate(&self, comparison: Option<&Comparison>) {
        let errors = comparison.map(annotations).unwrap_or_default();
        if self.args.verdict.annotate {
            errors.lines().for_each(|error| self.progress.say(error));
        }
    }
}

/// Returns the metrics that are worse in both comparisons, each with its case.
fn confirmed(first: &Comparison, second: &Comparison) -> Vec<String> {
    let again: HashSet<_> = second
        .worse()
        .map(|line| (&line.case, line.metric))
        .collect();
    first
        .worse()
        .filter(|line| again.contains(&(&line.case, line.metric)))
        .map(named)
        .collect()
}

/// Returns the text that names a metric and its case.
fn named(line: &Line) -> String {
    format!("{} of {}", line.metric, line.case)
}
