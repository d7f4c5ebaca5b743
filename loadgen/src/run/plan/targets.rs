//! The targets of a command line, and how to connect to them.

use anyhow::anyhow;
use etcd_api::client::config::{ClientConfig, TlsFiles, User};
use kube_api::client::KubeAccess;
use kube_api::client::access::Credentials;

use crate::cli::{ConnectArgs, RunArgs};
use crate::exit::Failure;
use crate::run::target::Target;
use crate::servers::target_spec::TargetSpec;

/// Returns the names of all targets of a command line: `--target`, then `--etcd` and `--kube`;
/// `bench` if there are none.
#[must_use]
pub fn target_names(targets: &[String], etcd: Option<&str>, kube: Option<&str>) -> Vec<String> {
    let mut names = targets.to_vec();
    names.extend(etcd.map(str::to_owned));
    names.extend(kube.map(|url| format!("kube:{url}")));
    if names.is_empty() {
        names.push("bench".to_owned());
    }
    names
}

/// Returns the targets of a command line. A target that is named twice is an error.
pub(super) fn targets(args: &RunArgs) -> Result<Vec<TargetSpec>, Failure> {
    let mut targets: Vec<TargetSpec> = Vec::new();
    for text in target_names(&args.targets, args.etcd.as_deref(), args.kube.as_deref()) {
        let target = text.parse().map_err(Failure::usage)?;
        if targets.contains(&target) {
            return Err(Failure::usage(anyhow!("target `{text}` is named twice")));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// Replaces the names of targets that have the same name by their full specifications, such as the
/// paths of two binaries of one version.
pub(super) fn tell_apart(targets: &mut [Target]) {
    let names: Vec<_> = targets.iter().map(|target| target.name.clone()).collect();
    for target in targets {
        if names.iter().filter(|name| **name == target.name).count() > 1 {
            target.name = target.spec.to_string();
        }
    }
}

/// Returns the connection settings of the command line. The endpoints in them are a placeholder.
///
/// # Errors
/// [`Failure`] with exit code 2.
pub fn connect_config(args: &ConnectArgs) -> Result<ClientConfig, Failure> {
    // Each target has its own endpoints; the other settings are shared.
    let mut config = ClientConfig::new("http://127.0.0.1:2379").map_err(Failure::usage)?;
    config.tls = TlsFiles {
        ca: args.cacert.clone(),
        cert: args.cert.clone(),
        key: args.key.clone(),
    };
    let user = args.user.as_deref();
    config.user = user.map(User::parse).transpose().map_err(Failure::usage)?;
    Ok(config)
}

/// Returns the credentials of the command line for Kubernetes APIs.
///
/// # Errors
/// [`Failure`] when a file cannot be read or used.
pub fn kube_access(args: &ConnectArgs) -> Result<KubeAccess, Failure> {
    let identity = args.cert.as_ref().zip(args.key.as_ref());
    let credentials =
        Credentials::from_files(args.cacert.as_ref(), identity, args.token_file.as_ref());
    let access = credentials.and_then(|credentials| credentials.access());
    access.map_err(Failure::usage)
}
