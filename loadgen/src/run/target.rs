//! A target and its name in results.

use std::path::Path;
use std::process::Command;

use anyhow::anyhow;

use crate::exit::Failure;
use crate::servers::target_spec::TargetSpec;
use crate::servers::{Build, Given};
use crate::timeouts::RESPONSE_TIMEOUT;

/// A target and its name in results.
#[derive(Debug, Clone)]
pub struct Target {
    /// The name: as in the command line, or for a binary such as `etcd-VERSION` or `bench:FILE`.
    pub name: String,
    /// What is measured: servers to start, or an endpoint.
    pub spec: TargetSpec,
    /// The build of loadgen or bench-server to start, if it is not this program.
    pub build: Option<Build>,
    /// Additional flags and environment variables of its servers.
    pub given: Given,
}

impl Target {
    /// Returns the target with its name. An etcd binary is named by its version, and every binary
    /// is asked for its version, in the environment of its servers, so that one that cannot run is
    /// detected at once.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2.
    pub(super) fn named(spec: TargetSpec, given: Given) -> Result<Self, Failure> {
        let (name, build) = match &spec {
            TargetSpec::EtcdBinary {
                path,
                fsync,
                kube_tier,
            } => {
                let text = version_of(path, &given)?;
                let mut lines = text.lines();
                let version = lines.find_map(|line| line.strip_prefix("etcd Version:"));
                let version = version.ok_or_else(|| no_such(path, "an etcd"))?;
                let fsync = if *fsync { "-fsync" } else { "" };
                let tier = if *kube_tier { "bench+" } else { "" };
                (format!("{tier}etcd-{}{fsync}", version.trim()), None)
            }
            TargetSpec::BenchBinary(path)
            | TargetSpec::BenchLog {
                path: Some(path), ..
            } => {
                let text = version_of(path, &given)?;
                let takes_serve = match text.split_whitespace().next() {
                    Some("loadgen") => true,
                    Some("bench-server") => false,
                    _ => return Err(no_such(path, "a loadgen or bench-server")),
                };
                let build = Build {
                    path: path.clone(),
                    takes_serve,
                };
                // The path is in the result's command; tables have room only for the file name.
                let file = path.file_name().unwrap_or(path.as_os_str());
                let kind = match &spec {
                    TargetSpec::BenchLog { fsync: true, .. } => "bench-fsync",
                    TargetSpec::BenchLog { fsync: false, .. } => "bench-log",
                    _ => "bench",
                };
                (format!("{kind}:{}", file.to_string_lossy()), Some(build))
            }
            _ => (spec.to_string(), None),
        };
        Ok(Self {
            name,
            spec,
            build,
            given,
        })
    }
}

fn version_of(path: &Path, given: &Given) -> Result<String, Failure> {
    let environment = given
        .environment
        .iter()
        .filter_map(|one| one.split_once('='));
    let output = Command::new(path)
        .arg("--version")
        .envs(environment)
        .output();
    let output =
        output.map_err(|e| Failure::usage(anyhow!("cannot run {}: {e}", path.display())))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn no_such(path: &Path, what: &str) -> Failure {
    Failure::usage(anyhow!(
        "{} is not {what}: it does not report its version",
        path.display()
    ))
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Awaits the first response of a foreign endpoint. An endpoint that accepts connections and does
/// not respond in time is an error.
pub(super) async fn answered<T>(
    target: &Target,
    looked: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let looked = tokio::time::timeout(RESPONSE_TIMEOUT, looked).await;
    looked.unwrap_or_else(|_| {
        let within = RESPONSE_TIMEOUT.as_secs();
        Err(unusable(target, format!("no response within {within} s")))
    })
}

/// Returns the error for a target that cannot be used, which ends the run with exit code 2.
pub(super) fn unusable(target: &Target, error: impl std::fmt::Display) -> Failure {
    Failure::usage(anyhow!("{}: {error}", target.name))
}
