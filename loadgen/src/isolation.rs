//! Isolates the servers of a run and the generator from the rest of the machine, in the same way
//! for every target.
//!
//! - [`network`]: a network namespace for the run, with one congestion control for everything in it
//! - [`cpus`]: the CPUs that servers and generator may use
//!
//! [`Isolation::enter`] runs before any other thread exists: a namespace that the first thread
//! enters applies to every thread and child that is started later.

pub mod cpus;
pub mod network;

use std::path::Path;

use anyhow::anyhow;
use report::result::Environment;
use workloads::{CpuList, Scenario};

use crate::cli::RunArgs;
use crate::exit::Failure;
use crate::servers::target_spec::TargetSpec;
use network::{Network, NetworkNamespace};

/// The isolation of a run.
#[derive(Debug)]
pub struct Isolation {
    network: Network,
    cores: Option<u32>,
    /// The CPUs that this program could use before it was pinned.
    available_cpus: Option<CpuList>,
}

impl Isolation {
    /// Moves the generator into a network namespace as `--network-namespace` says: by default, if
    /// the system permits it and loadgen starts every target.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 if `--network-namespace yes` is impossible.
    pub fn enter(
        args: &RunArgs,
        targets: &[TargetSpec],
        own_program: &Path,
    ) -> Result<Self, Failure> {
        let cores = std::thread::available_parallelism().ok();
        let attached = targets.iter().find(|target| !target.is_started());
        let network = match (args.network_namespace, attached) {
            (NetworkNamespace::No, _) => Network::of_the_system("--network-namespace no"),
            (NetworkNamespace::Yes, Some(target)) => {
                return Err(Failure::usage(anyhow!(
                    "--network-namespace yes: `{target}` cannot be reached from a namespace of the run's own"
                )));
            }
            (NetworkNamespace::Auto, Some(target)) => {
                Network::of_the_system(&format!("`{target}` is outside of it"))
            }
            (wanted, None) => match network::enter_if_possible(own_program)? {
                Ok(network) => network,
                Err(reason) if wanted == NetworkNamespace::Yes => {
                    return Err(Failure::usage(anyhow!("--network-namespace yes: {reason}")));
                }
                Err(reason) => Network::of_the_system(&reason),
            },
        };
        Ok(Self {
            network,
            cores: cores.and_then(|cores| u32::try_from(cores.get()).ok()),
            available_cpus: cpus::available().ok(),
        })
    }

    /// Pins the generator, with all its present and future threads, to the client CPUs of a
    /// scenario, or to all available CPUs if it names none.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 if the system does not permit it.
    pub fn pin(&self, scenario: &Scenario) -> Result<(), Failure> {
        let wanted = scenario.client_cpus.as_ref();
        match wanted.or(self.available_cpus.as_ref()) {
            Some(list) if cpus::available().ok().as_ref() != Some(list) => cpus::pin_process(list)
                .map_err(|error| Failure::usage(anyhow!("the generator on CPUs {list}: {error}"))),
            _ => Ok(()),
        }
    }

    /// Records the isolation in the environment of a scenario's result.
    #[must_use]
    pub fn noted_in(&self, environment: Environment, scenario: &Scenario) -> Environment {
        let shown = |cpus: &Option<CpuList>| cpus.as_ref().map(ToString::to_string);
        Environment {
            cores: self.cores.unwrap_or(environment.cores),
            congestion_control: self.network.congestion_control.clone(),
            network_namespace: self.network.namespace,
            network_namespace_reason: self.network.reason.clone(),
            server_cpus: shown(&scenario.server_cpus),
            client_cpus: shown(&scenario.client_cpus),
            ..environment
        }
    }
}
