//! The program: parses flags, starts a server, prints its address, and waits for a signal or a
//! failure.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use etcd_tier::server::EtcdTier;
use futures::future::OptionFuture;
use kube_tier::server::{Backend, KubeTier};
use listen::raise_descriptor_limit;
use listen::tasks::TaskEnded;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::embedded::EmbeddedEtcd;
use crate::flags::Flags;

/// Exit code of a usage error, an address in use, an unusable certificate or an unreachable etcd.
const EXIT_USAGE: u8 = 2;

/// The reason for which a running server stops.
enum Stop {
    /// A signal.
    Signal,
    /// A background task has failed. Without it, responses would be stale.
    Failed(TaskEnded),
}

/// Runs the server with `args` (the first is the program's name) until SIGINT or SIGTERM, or until
/// one of its tasks fails, which is exit code 1.
///
/// Prints `ready etcd=URL[,URL]` (or `ready kube=…`) on standard output once it accepts
/// connections.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let flags = Flags::parse_from(args);
    start_logging(&flags.log_level);
    raise_descriptor_limit();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("error: cannot start a runtime: {e}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(flags)) {
        Ok(Stop::Signal) => ExitCode::SUCCESS,
        Ok(Stop::Failed(ended)) => {
            eprintln!("error: {ended}; the server stops, since it cannot go on without");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

async fn serve(flags: Flags) -> anyhow::Result<Stop> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let (serves_etcd, serves_kube) = (
        !flags.etcd.listen_client_urls.is_empty(),
        !flags.kube.listen_kube_urls.is_empty(),
    );
    let embedded = flags.kube.backend == Backend::Embedded;
    if !serves_etcd && !serves_kube {
        usage(
            "nothing to serve: give --listen-client-urls http://HOST:PORT, or --listen-kube-urls with --etcd-servers",
        );
    }
    if serves_kube && embedded && !serves_etcd {
        usage("--backend embedded needs --listen-client-urls: that is where its store is loaded");
    }
    if serves_kube && embedded != flags.kube.etcd_servers.is_empty() {
        usage("--listen-kube-urls needs either --etcd-servers URL,… or --backend embedded");
    }
    let mut etcd = None;
    if serves_etcd {
        let tier = EtcdTier::start(&flags.etcd, &flags.common).await?;
        announce("etcd", &tier.urls)?;
        etcd = Some(tier);
    }
    let mut kube = None;
    if serves_kube {
        let tier = match &etcd {
            Some(tier) if embedded => {
                let store = tier.node.store.clone();
                let backend = EmbeddedEtcd::new(store, tier.node.progress_notify_interval);
                KubeTier::start_over(Arc::new(backend), &flags.kube, &flags.common).await?
            }
            _ => KubeTier::start(&flags.kube, &flags.common).await?,
        };
        announce("kube", &tier.urls)?;
        kube = Some(tier);
    }
    let stop = until_stopped(&mut interrupt, &mut terminate, &mut etcd, &mut kube).await;
    if let Some(etcd) = &etcd {
        etcd.close().await;
    }
    Ok(stop)
}

/// Waits for a signal, or for the end of a task that a tier needs.
async fn until_stopped(
    interrupt: &mut Signal,
    terminate: &mut Signal,
    etcd: &mut Option<EtcdTier>,
    kube: &mut Option<KubeTier>,
) -> Stop {
    let etcd_ended = OptionFuture::from(etcd.as_mut().map(EtcdTier::ended));
    let kube_ended = OptionFuture::from(kube.as_mut().map(KubeTier::ended));
    let signal = tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        Some(ended) = etcd_ended => return Stop::Failed(ended),
        Some(ended) = kube_ended => return Stop::Failed(ended),
    };
    tracing::info!("stopping on {signal}");
    Stop::Signal
}

/// Prints a usage error; returns its exit code.
fn usage(message: &str) -> ! {
    Flags::command()
        .error(clap::error::ErrorKind::MissingRequiredArgument, message)
        .exit()
}

/// Logs and prints that connections are accepted. A closed pipe is not an error.
fn announce(tier: &str, urls: &[String]) -> anyhow::Result<()> {
    let urls = urls.join(",");
    tracing::info!("the {tier} tier listens on {urls}");
    let mut out = std::io::stdout().lock();
    match writeln!(out, "ready {tier}={urls}").and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

fn start_logging(filter: &str) {
    let set = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .try_init();
    if set.is_err() {
        tracing::debug!("logging was set up before");
    }
}
