//! Runs the commands that [`crate::cli`] parses.

mod ab;
mod compare;
mod merge;
mod probe;
mod report;
mod session;
mod suite;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::report::result::{Report, ResultFolder, SavedResult};
use ::report::{draw, terminal};
use anyhow::{Context as _, anyhow};
use clap::CommandFactory as _;
use etcd_api::client::config::ClientConfig;
use load::child::parent_death::exec_as_child_of;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use workloads::Scenario;
use workloads::scenario::Saturate;

use crate::capture::audit_log::AuditLog;
use crate::capture::{self, CaptureOptions};
use crate::cli::{
    AbArgs, CaptureArgs, Cli, CompareArgs, CompletionsArgs, ExecChildArgs, Format, MergeArgs,
    ProbeArgs, ReportArgs, RunArgs, SATURATE_SCENARIO, SaturateArgs, ScenariosArgs, SuiteArgs,
};
use crate::exit::{Exit, Failure};
use crate::isolation::cpus::pin;
use crate::isolation::{Isolation, network};
use crate::live::http::MetricsListener;
use crate::progress::Progress;
use crate::run::{self, Plan};
use crate::servers::folders_left;
use crate::servers::target_spec::TargetSpec;
use session::Session;

/// The shortest time for which requests are counted.
const SHORTEST_OBSERVED: Duration = Duration::from_secs(1);

/// Runs `loadgen run`.
///
/// # Errors
/// [`Failure`] with the exit code that it means.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    run_or_search(args, None)
}

/// Runs `loadgen saturate`.
///
/// # Errors
/// [`Failure`] with the exit code that it means.
pub fn saturate(args: &SaturateArgs) -> Result<Exit, Failure> {
    let mut run = args.run.clone();
    if run.rate.is_some() {
        return Err(Failure::usage(anyhow!(
            "saturate searches for the rate between --from and --to: remove --rate"
        )));
    }
    if run.scenarios.is_empty() {
        run.scenarios = vec![SATURATE_SCENARIO.to_owned()];
    }
    run_or_search(&run, Some(args.saturate()))
}

fn run_or_search(args: &RunArgs, saturate: Option<Saturate>) -> Result<Exit, Failure> {
    let own_program = std::env::current_exe()
        .context("own program")
        .map_err(Failure::usage)?;
    let mut plan = Plan::new(args, saturate, &own_program)?;
    let mut out = std::io::stdout();
    if args.dry_run {
        let runtime = runtime()?;
        runtime.block_on(plan.discover())?;
        writeln!(out, "{}", plan.dry_run())?;
        for line in runtime.block_on(run::survey(&plan))? {
            writeln!(out, "{line}")?;
        }
        return Ok(Exit::Done);
    }
    let targets: Vec<_> = plan
        .targets
        .iter()
        .map(|target| target.spec.clone())
        .collect();
    let metrics = metrics_listener(args)?;
    // No other thread exists yet, so what is set for this thread holds for all.
    let isolation = Isolation::enter(args, &targets, &own_program)?;
    if let Some(first) = plan.scenarios.first() {
        isolation.pin(first)?;
    }
    let runtime = runtime()?;
    runtime.block_on(async {
        plan.discover().await?;
        let session = Session::begin(isolation)?;
        serve_metrics(metrics, &session.progress);
        let say = |note: &String| session.progress.say(note);
        plan.notes.iter().for_each(say);
        let mut exit = Exit::Done;
        for scenario in &plan.scenarios {
            let format = Some(args.format);
            let measured = session.measure(&plan, scenario, &args.out, format).await;
            let measured = measured.map_err(|failure| failure.beside(exit))?;
            exit = exit.and(measured.exit);
            if let Some(failure) = measured.failure {
                return Err(failure.beside(exit));
            }
            if session.is_over(exit) {
                break;
            }
        }
        Ok(session.end(exit))
    })
}

/// Binds the port of `--listen-metrics`, before a network namespace is entered.
fn metrics_listener(args: &RunArgs) -> Result<Option<MetricsListener>, Failure> {
    let Some(address) = args.listen_metrics else {
        return Ok(None);
    };
    let taken = MetricsListener::bind(address);
    let taken = taken.with_context(|| format!("--listen-metrics {address}"));
    taken.map(Some).map_err(Failure::usage)
}

/// Serves metrics until the program ends. Must be called within a runtime.
fn serve_metrics(listener: Option<MetricsListener>, progress: &Progress) {
    let Some(listener) = listener else {
        return;
    };
    progress.say(&format!("metrics: http://{}/metrics", listener.address()));
    let progress = progress.clone();
    tokio::spawn(async move {
        let served = listener.serve(progress.loads().clone()).await;
        served.map_or_else(
            |error| progress.say(&format!("metrics are not served: {error}")),
            |never| match never {},
        );
    });
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .context("cannot start a runtime")
        .map_err(Failure::usage)
}

/// Saves a result, if anything was measured, and reports and returns its path.
fn save(
    result: &SavedResult,
    folder: ResultFolder,
    progress: &Progress,
) -> Result<Option<PathBuf>, Failure> {
    if result.report.cases.is_empty() {
        folder.discard().map_err(Failure::usage)?;
        return Ok(None);
    }
    let (path, failures) = draw::publish(result, folder).map_err(Failure::usage)?;
    for failure in failures {
        progress.say(&format!("not drawn: {failure}"));
    }
    progress.say(&format!("result: {}", path.display()));
    Ok(Some(path))
}

/// Writes a result in the requested format.
fn show(out: &mut impl Write, format: Format, report: &Report) -> std::io::Result<()> {
    match format {
        Format::Text => write!(out, "{}", terminal::text(report, terminal::width())),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, report)?;
            writeln!(out)
        }
    }
}

/// Runs `loadgen suite`: measures several scenarios and judges them in one verdict.
///
/// # Errors
/// [`Failure`] with the exit code that it means.
pub fn suite(args: &SuiteArgs) -> Result<Exit, Failure> {
    suite::run(args)
}

/// Runs `loadgen completions`.
///
/// # Errors
/// If standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loadgen", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(Exit::Done)
}

/// Runs `loadgen man`.
///
/// # Errors
/// If standard output cannot be written.
pub fn man() -> Result<Exit, Failure> {
    clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
    Ok(Exit::Done)
}

/// Runs `loadgen scenarios`: lists the built-in scenarios, one line each, or prints one of them as
/// a file.
///
/// # Errors
/// If there is no scenario of that name, or standard output cannot be written.
pub fn scenarios(args: &ScenariosArgs) -> Result<Exit, Failure> {
    if let Some(name) = &args.name {
        let text = workloads::scenario::text_of(name).map_err(Failure::usage)?;
        write!(std::io::stdout(), "{text}")?;
        return Ok(Exit::Done);
    }
    let scenarios = workloads::scenario::built_in();
    let widest = scenarios
        .iter()
        .map(|scenario| scenario.name.len())
        .max()
        .unwrap_or_default();
    let mut out = std::io::stdout();
    for Scenario { name, summary, .. } in &scenarios {
        writeln!(out, "{name:widest$}  {summary}")?;
    }
    Ok(Exit::Done)
}

/// Runs `loadgen report`: draws saved results again or prints them for other programs.
///
/// # Errors
/// If a folder holds no result, or a result cannot be drawn or printed.
pub fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    report::run(args)
}

/// Runs `loadgen compare`: compares the saved results of two sides.
///
/// # Errors
/// If a folder holds no result, or the results cannot be compared.
pub fn compare(args: &CompareArgs) -> Result<Exit, Failure> {
    let (text, exit) = compare::run(args)?;
    write!(std::io::stdout(), "{text}")?;
    Ok(exit)
}

/// Runs `loadgen merge`: merges the results of several generators into one.
///
/// # Errors
/// If they are not all parts of one run, or the merged result cannot be written.
pub fn merge(args: &MergeArgs) -> Result<Exit, Failure> {
    merge::run(args)
}

/// Runs `loadgen ab`: compares two targets in pairs of fresh starts.
///
/// # Errors
/// [`Failure`] with the exit code that it means.
pub fn ab(args: &AbArgs) -> Result<Exit, Failure> {
    ab::run(args)
}

/// Runs `loadgen exec-child`: replaces this process by another program.
///
/// # Errors
/// Always, if it returns: on success this process is replaced.
pub fn exec_child(args: &ExecChildArgs) -> Result<Exit, Failure> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::usage(anyhow::anyhow!(
            "exec-child: no program given"
        )));
    };
    let error = match args.cpus.as_ref().map(pin) {
        Some(Err(error)) => error,
        _ => exec_as_child_of(args.parent, program, rest),
    };
    let context = format!("cannot start {}", program.to_string_lossy());
    Err(Failure::usage(anyhow::Error::new(error).context(context)))
}

/// Runs the hidden command that serves the baseline of lists until it is killed.
///
/// # Errors
/// If the baseline cannot be served.
pub fn serve_baseline(bytes: usize) -> Result<Exit, Failure> {
    let runtime = runtime()?;
    let served = runtime.block_on(bench_server::baseline::serve(bytes));
    served.map_err(Failure::usage)?;
    Ok(Exit::Done)
}

/// Runs the hidden command that tests whether a network namespace can be entered.
///
/// # Errors
/// If it cannot be entered.
pub fn try_network_namespace() -> Result<Exit, Failure> {
    network::enter().map_err(Failure::usage)?;
    Ok(Exit::Done)
}

/// Runs `loadgen capture`.
///
/// # Errors
/// [`Failure`] with exit code 2 if the target is not an etcd or cannot be reached, or if the file
/// exists or cannot be written.
pub fn capture(args: &CaptureArgs) -> Result<Exit, Failure> {
    let target: TargetSpec = args.target.parse().map_err(Failure::usage)?;
    let TargetSpec::Etcd(endpoints) = &target else {
        return Err(Failure::usage(anyhow!(
            "`{target}` is not the address of an etcd: capture reads http://HOST:PORT or https://HOST:PORT"
        )));
    };
    let config = ClientConfig {
        endpoints: ClientConfig::new(endpoints)
            .map_err(Failure::usage)?
            .endpoints,
        ..run::connect_config(&args.connect)?
    };
    let written = |error: std::io::Error| {
        let context = format!("cannot write {}", args.out.display());
        Failure::usage(anyhow::Error::new(error).context(context))
    };
    if args.out.exists() {
        return Err(written(std::io::ErrorKind::AlreadyExists.into()));
    }
    if !args.observe.is_zero() && args.observe < SHORTEST_OBSERVED {
        return Err(Failure::usage(anyhow!(
            "--observe {} is too short to count requests: 1s or more, or 0s not to count them",
            humantime::format_duration(args.observe)
        )));
    }
    // A token is sent to Kubernetes APIs only.
    let access = run::kube_access(&args.connect)?.without_token();
    let audit_log = args.audit_log.as_deref().map(AuditLog::read);
    let options = CaptureOptions {
        prefix: args.prefix.clone(),
        observe: args.observe,
        audit_log: audit_log.transpose().map_err(Failure::usage)?,
    };
    let progress = Progress::new();
    let bad = |error: &dyn std::fmt::Display| Failure::usage(anyhow!("{target}: {error}"));
    // Created first, so that no request is sent in vain.
    let mut file = std::fs::File::create_new(&args.out).map_err(written)?;
    let captured = runtime()?.block_on(async {
        let stop = stop_on_signals(&progress)?;
        tokio::select! {
            captured = capture::capture(&config, &access, options, &progress) => captured.map(Some).map_err(|e| bad(&e)),
            () = stop.cancelled() => Ok(None),
        }
    });
    let captured = match captured {
        Ok(Some(captured)) => captured,
        other => {
            std::fs::remove_file(&args.out).map_err(written)?;
            return other.map(|_| Exit::Interrupted);
        }
    };
    if let Err(error) = file.write_all(captured.scenario().as_bytes()) {
        // A partial scenario file must not remain.
        std::fs::remove_file(&args.out).ok();
        return Err(written(error));
    }
    let mut out = std::io::stdout();
    write!(out, "{captured}")?;
    writeln!(
        out,
        "Run it on the bench server: loadgen run {}",
        run_name(&args.out)
    )?;
    Ok(Exit::Done)
}

/// Returns a file's path as `loadgen run` accepts it: with a slash, or ending in `.toml`.
fn run_name(path: &Path) -> String {
    match path.extension().is_some_and(|end| end == "toml") {
        true => path.display().to_string(),
        false => format!("./{}", path.display()),
    }
}

/// Runs `loadgen probe`: checks, rule by rule, what an endpoint honours.
///
/// # Errors
/// [`Failure`] with exit code 2 if the target cannot be reached, or has no such API.
pub fn probe(args: &ProbeArgs) -> Result<Exit, Failure> {
    probe::run(args)
}

/// Returns a token that Ctrl-C and SIGTERM cancel. A second signal exits at once: otherwise, an
/// endpoint that does not respond could block the program and its clean-up for ever.
fn stop_on_signals(progress: &Progress) -> Result<CancellationToken, Failure> {
    let failed = |error| Failure::usage(anyhow::Error::new(error).context("signal handler"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    let progress = progress.clone();
    let mut signalled = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::spawn(async move {
        signalled().await;
        progress.say(
            "stopping: keeping what was measured and cleaning up; press Ctrl-C again to leave at once",
        );
        cancelled.cancel();
        signalled().await;
        eprintln!("stopped at once: what was written to an existing endpoint may be left there");
        for folder in folders_left() {
            eprintln!("left behind: {}", folder.display());
        }
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(stop)
}
