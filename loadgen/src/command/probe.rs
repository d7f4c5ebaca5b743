//! `loadgen probe`: starts or connects to the target, probes one API, and prints the findings.

use std::io::Write as _;

use anyhow::{Context as _, anyhow};
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest};
use tokio_util::sync::CancellationToken;
use workloads::{PlainList, Strategy, Tier};

use super::{runtime, stop_on_signals};
use crate::cli::{Format, ProbeArgs};
use crate::exit::{Exit, Failure};
use crate::probe::kube::KubeEndpoint;
use crate::probe::{self, Access, Document};
use crate::progress::Progress;
use crate::run;
use crate::servers::running::Running;
use crate::servers::target_spec::TargetSpec;
use crate::servers::{Contexts, Launcher};
use crate::timeouts::in_time;

/// A key that is put and deleted before our Kubernetes tier starts, so that the revision at which
/// its cache begins is later than the first.
const EARLIER_KEY: &[u8] = b"/loadgen/probe/earlier";

/// Implements [`super::probe()`].
pub(super) fn run(args: &ProbeArgs) -> Result<Exit, Failure> {
    let launcher = Launcher {
        own_program: std::env::current_exe()
            .context("own program")
            .map_err(Failure::usage)?
            .into(),
        connect: run::connect_config(&args.connect)?,
        kube_access: run::kube_access(&args.connect)?,
        contexts: Contexts::default(),
        serves_profiles: false,
    };
    let target: TargetSpec = args.target.parse().map_err(Failure::usage)?;
    let tier = tier_of(&target, args.tier.map(Tier::from))?;
    let document = runtime()?.block_on(async {
        let progress = Progress::new();
        let stop = stop_on_signals(&progress)?;
        probed(&launcher, (&target, tier), args.seed_data, &progress, &stop).await
    })?;
    let Some(document) = document else {
        return Ok(Exit::Interrupted);
    };
    let mut out = std::io::stdout();
    match args.format {
        Format::Text => writeln!(out, "{document}")?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(match document.counts.broken {
        0 => Exit::Done,
        _ => Exit::TargetFailed,
    })
}

/// Returns the API to probe: the named one, or the target's first.
fn tier_of(target: &TargetSpec, named: Option<Tier>) -> Result<Tier, Failure> {
    let Some(tier) = named else {
        return Ok(match target.lacks(Tier::Etcd) {
            None => Tier::Etcd,
            Some(_) => Tier::Kube,
        });
    };
    match target.lacks(tier) {
        None => Ok(tier),
        Some(reason) => Err(Failure::usage(anyhow!("`{target}`: {reason}"))),
    }
}

/// Probes the target; returns `None` if stopped meanwhile. A server that was started for the probe
/// has been stopped when this returns.
async fn probed(
    launcher: &Launcher,
    (target, tier): (&TargetSpec, Tier),
    seed_data: bool,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Option<Document>, Failure> {
    let bad = |error: &dyn std::fmt::Display| Failure::usage(anyhow!("{target}: {error}"));
    let access = match (target.is_started(), seed_data) {
        (true, _) => Access::Own,
        (false, true) => Access::Write,
        (false, false) => Access::IfEmpty,
    };
    let mut running = tokio::select! {
        running = launcher.start(target, Strategy::Plain(PlainList::Stream)) => running.map_err(|e| bad(&e))?,
        () = stop.cancelled() => return Ok(None),
    };
    let run_id = run::run_id();
    let document = match (tier, running.etcd.clone()) {
        (Tier::Etcd, Some(config)) => probe::probe(&config, access, &run_id, stop)
            .await
            .map_err(|e| bad(&e)),
        (_, storage) => match endpoint(&mut running, storage, access).await {
            // An existing Kubernetes API always holds other people's data.
            Ok(endpoint) => probe::kube::probe(
                &endpoint,
                access != Access::IfEmpty,
                &run_id,
                progress,
                stop,
            )
            .await
            .map_err(|e| bad(&e)),
            Err(error) => Err(bad(&error)),
        },
    };
    running.stop().await;
    Ok(Some(document?).filter(|_| !stop.is_cancelled()))
}

/// Returns the Kubernetes API of the target; starts our tier in front of an etcd that was started.
async fn endpoint(
    running: &mut Running,
    storage: Option<ClientConfig>,
    access: Access,
) -> anyhow::Result<KubeEndpoint> {
    if let Some(storage) = &storage {
        put_and_delete(storage).await?;
        running.start_kube(&[]).await?;
    }
    Ok(KubeEndpoint {
        url: running.kube_url.clone().context("no Kubernetes API")?,
        access: running.kube_access.clone(),
        storage: storage.filter(|_| access == Access::Own),
    })
}

async fn put_and_delete(storage: &ClientConfig) -> Result<(), EtcdError> {
    let client = in_time(Client::connect(storage.clone())).await?;
    let put = PutRequest {
        key: EARLIER_KEY.into(),
        ..PutRequest::default()
    };
    in_time(client.kv().put(put)).await?;
    let delete = DeleteRangeRequest {
        key: EARLIER_KEY.into(),
        ..DeleteRangeRequest::default()
    };
    in_time(client.kv().delete_range(delete)).await?;
    Ok(())
}
