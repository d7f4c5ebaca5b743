//! `loadgen`: measures what it costs to list and watch large sets of objects.

use std::io::IsTerminal as _;
use std::iter;
use std::process::ExitCode;

use anyhow::anyhow;
use bench_server::memory::allocator;
use clap::Parser as _;
use loadgen::cli::{Cli, Command, LOG_VARIABLE};
use loadgen::command;
use loadgen::exit::{Exit, Failure};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The allocator that our servers use too, with the same settings, so that differences between the
/// memory of generator and server are due to what they do, not to their allocators.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    allocator::configure();
    let command = Cli::parse().into_command();
    if !matches!(
        command,
        Command::Serve(_) | Command::ExecChild(_) | Command::TryNetworkNamespace
    ) && let Err(failure) = start_logging()
    {
        eprintln!("error: {failure}");
        return failure.exit.into();
    }
    let ended = match command {
        Command::Run(args) => command::run(&args),
        Command::Saturate(args) => command::saturate(&args),
        Command::Probe(args) => command::probe(&args),
        Command::Capture(args) => command::capture(&args),
        Command::Suite(args) => command::suite(&args),
        Command::Scenarios(args) => command::scenarios(&args),
        Command::Completions(args) => command::completions(&args),
        Command::Man => command::man(),
        Command::Report(args) => command::report(&args),
        Command::Compare(args) => command::compare(&args),
        Command::Merge(args) => command::merge(&args),
        Command::Ab(args) => command::ab(&args),
        Command::ExecChild(args) => command::exec_child(&args),
        Command::ServeBaseline { bytes } => command::serve_baseline(bytes),
        Command::TryNetworkNamespace => command::try_network_namespace(),
        // Runs the whole bench server with its own logs: nothing of the generator runs in this
        // process.
        Command::Serve(args) => {
            return bench_server::run(iter::once("loadgen serve".into()).chain(args.flags));
        }
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) if failure.is_broken_pipe() => Exit::Done.into(),
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit.into()
        }
    }
}

/// Starts logging to standard error, where progress bars are too; by default only warnings and
/// errors. `LOADGEN_LOG` is a level or a filter.
fn start_logging() -> Result<(), Failure> {
    let asked = std::env::var_os(LOG_VARIABLE).unwrap_or_default();
    let asked = asked.to_string_lossy();
    let refused = |why: String| Failure::usage(anyhow!("{LOG_VARIABLE}=`{asked}`: {why}"));
    // A misspelt level would be taken for a module name, and silence all others.
    let mut words = asked.split(',').map(str::trim);
    if let Some(word) = words.find(|word| is_bare(word) && word.parse::<LevelFilter>().is_err()) {
        return Err(refused(format!(
            "`{word}` is none of off, error, warn, info, debug, trace; one module's level is asked for as h2=debug"
        )));
    }
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse(&*asked)
        .map_err(|error| refused(error.to_string()))?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .init();
    Ok(())
}

/// Returns whether a part of a filter is a single word.
fn is_bare(part: &str) -> bool {
    !part.is_empty() && !part.contains(['=', '[', ':'])
}
