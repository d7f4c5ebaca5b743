//! What is measured, and what it is called.

use std::path::Path;
use std::process::Command;

use anyhow::anyhow;

use crate::exit::Failure;
use crate::servers::target_spec::TargetSpec;
use crate::servers::{Build, Given};
use crate::timeouts::ANSWERS_WITHIN;

/// A target and what it is called in results.
#[derive(Debug, Clone)]
pub struct Target {
    /// As it was written, or `etcd-VERSION` for a binary.
    pub name: String,
    /// What it is.
    pub spec: TargetSpec,
    /// The build of our servers that is started, where it is not this program.
    pub build: Option<Build>,
    /// What its servers are given besides what all get.
    pub given: Given,
}

impl Target {
    /// Returns a target that is named by what it says of itself: an etcd binary by its version,
    /// which is asked for here, in the environment that its servers will have, so that one that
    /// cannot run is found out at once.
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
                // Where it lies is in the result's command; tables have room for what it is called.
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
        "{} is not {what}: it does not tell its version",
        path.display()
    ))
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns what a foreign endpoint answers when it is first looked at. One that takes connections
/// and says nothing is refused.
pub(super) async fn answered<T>(
    target: &Target,
    looked: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let looked = tokio::time::timeout(ANSWERS_WITHIN, looked).await;
    looked.unwrap_or_else(|_| {
        let within = ANSWERS_WITHIN.as_secs();
        Err(unusable(target, format!("no answer within {within} s")))
    })
}

/// Returns an error that ends the run with exit code 2, naming the target.
pub(super) fn unusable(target: &Target, error: impl std::fmt::Display) -> Failure {
    Failure::usage(anyhow!("{}: {error}", target.name))
}
