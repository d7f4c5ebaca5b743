//! `loadgen`: measures what it costs to list and watch large sets of objects.

use std::process::ExitCode;

use clap::Parser as _;
use loadgen::cli::{Cli, Command};
use loadgen::command;
use loadgen::exit::{Exit, Failure};

/// The same allocator as our servers', set up the same way: figures of generator and server can be told apart by what they
/// do, not by what serves them.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|command| command == "serve") {
        // A server is the bench server, whole: nothing of the generator may run in its process.
        return bench_server::run(std::iter::once("loadgen serve".into()).chain(args));
    }
    let ended = match Cli::parse().into_command() {
        Command::Run(args) => command::run(&args),
        other => Err(Failure::usage(anyhow::anyhow!("not wired yet: {other:?}"))),
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
