//! Credential plugins of kubeconfigs, such as those of EKS, GKE and AKS: programs that print a
//! token or a certificate (`exec`; `client.authentication.k8s.io/v1` and `v1beta1`).

use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::KubeError;
use crate::time::parse_rfc3339;

/// The supported API versions. kubectl removed `v1alpha1` in 1.24.
const VERSIONS: [&str; 2] = [
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
];
/// Time limits of a plugin: in general, and for one that may prompt the user.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
const INTERACTIVE_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval of checks whether a plugin has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time allowed after the end of a plugin for the rest of its output to arrive.
const PRINTED_WITHIN: Duration = Duration::from_secs(2);
/// Maximum size of a plugin's output. A token has some kilobytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// A plugin, as a kubeconfig describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecPlugin {
    /// One of the supported versions; the plugin must return the same.
    #[serde(default)]
    api_version: String,
    /// The program: a path, or a name that is looked up in `$PATH`.
    #[serde(default)]
    command: PathBuf,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    /// Instructions for users who have not installed the program.
    #[serde(default)]
    install_hint: Option<String>,
    /// Whether the plugin receives a description of the cluster.
    #[serde(default)]
    provide_cluster_info: bool,
    #[serde(default)]
    interactive_mode: Option<InteractiveMode>,
    /// The description of the cluster, if the plugin receives one.
    #[serde(skip)]
    cluster: Option<Value>,
}

#[derive(Clone, PartialEq, Eq, Deserialize)]
struct Variable {
    name: String,
    value: String,
}

/// Shows the name only: values may be secrets.
impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Whether a plugin may prompt the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum InteractiveMode {
    Never,
    IfAvailable,
    Always,
}

/// The credentials that a plugin returned.
pub(super) struct Issued {
    /// Bearer token.
    pub(super) token: Option<String>,
    /// Certificate chain and key, PEM.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Expiry time; `None` if the plugin gave none.
    pub(super) ends: Option<SystemTime>,
}

/// Shows which credentials there are, and none of them.
impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued")
            .field("token", &self.token.is_some())
            .field("identity", &self.identity.is_some())
            .field("ends", &self.ends)
            .finish()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: String,
    kind: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl ExecPlugin {
    /// Validates the description before the plugin runs. A command with a slash is resolved
    /// relative to `folder`, the kubeconfig's.
    ///
    /// # Errors
    /// The reason why the description is invalid.
    pub(super) fn checked(mut self, folder: &Path) -> Result<Self, String> {
        let version = &self.api_version;
        if !VERSIONS.contains(&version.as_str()) {
            let [v1, v1beta1] = VERSIONS;
            return Err(format!(
                "exec: apiVersion `{version}` is not supported ({v1} and {v1beta1} are)"
            ));
        }
        if self.command.as_os_str().is_empty() {
            return Err("exec: command is empty".to_owned());
        }
        if self.interactive_mode.is_none() && *version == VERSIONS[0] {
            return Err(format!(
                "exec: interactiveMode is required with {version}: Never, IfAvailable or Always"
            ));
        }
        if self.command.components().nth(1).is_some() {
            self.command = folder.join(&self.command);
        }
        Ok(self)
    }

    /// Sets the description of the cluster, if the plugin wants to receive it.
    pub(super) fn about(mut self, cluster: impl FnOnce() -> Value) -> Self {
        self.cluster = self.provide_cluster_info.then(cluster);
        self
    }

    /// Runs the plugin and reads its output. The plugin inherits standard error. Blocks for at most
    /// 60 s, or 5 minutes if the plugin may prompt the user.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] in one line, when the program is not found, fails, takes too
    /// long, or prints anything but credentials. The error does not include the output.
    pub(super) fn run(&self) -> Result<Issued, KubeError> {
        let is_terminal = std::io::stdin().is_terminal();
        self.run_in(is_terminal, RUN_TIMEOUT)
    }

    fn run_in(&self, is_terminal: bool, within: Duration) -> Result<Issued, KubeError> {
        let mode = self
            .interactive_mode
            .unwrap_or(InteractiveMode::IfAvailable);
        let (interactive, within) = match (mode, is_terminal) {
            (InteractiveMode::Always, false) => {
                let reason =
                    "it asks a person (interactiveMode Always), and standard input is no terminal";
                return Err(self.failed(reason));
            }
            (InteractiveMode::Never, _) | (_, false) => (false, within),
            (_, true) => (true, INTERACTIVE_TIMEOUT),
        };
        let mut spec = json!({ "interactive": interactive });
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        let info = json!({
            "apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec,
        });
        let variables = self.env.iter().flatten();
        let child = Command::new(&self.command)
            .args(self.args.iter().flatten())
            .envs(variables.map(|it| (OsString::from(&it.name), &it.value)))
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(match interactive {
                true => Stdio::inherit(),
                false => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|e| self.not_started(&e))?;
        let printed = self.printed(&mut child, within);
        if printed.is_err() {
            // It has ended, or must be ended.
            child.kill().ok();
            child.wait().ok();
        }
        self.read(&printed?)
    }

    /// Returns the output of a plugin that ended successfully.
    fn printed(&self, child: &mut Child, within: Duration) -> Result<Vec<u8>, KubeError> {
        let stdout = child.stdout.take();
        let stdout = stdout.ok_or_else(|| self.failed("it has no standard output"))?;
        let (send, printed) = mpsc::channel();
        // Read on another thread: a full pipe would block the plugin, and a pipe that a grandchild
        // keeps open would block this function.
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut limited = stdout.take(MAX_OUTPUT_BYTES + 1);
            let read = limited.read_to_end(&mut bytes);
            send.send(read.map(|_| bytes)).ok();
            // Closed only after the output was sent: the closed pipe kills a plugin that prints
            // more.
            drop(limited);
        });
        let status = self.ended(child, within)?;
        let printed = printed.recv_timeout(PRINTED_WITHIN);
        let is_too_much = |bytes: &Vec<u8>| bytes.len() as u64 > MAX_OUTPUT_BYTES;
        match printed {
            Ok(Ok(bytes)) if is_too_much(&bytes) => {
                Err(self.failed(&format!("it printed more than {MAX_OUTPUT_BYTES} bytes")))
            }
            _ if !status.success() => Err(self.failed(&format!("it ended with {status}"))),
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(self.failed(&error.to_string())),
            Err(_) => Err(self.failed("its output does not end")),
        }
    }

    fn ended(&self, child: &mut Child, within: Duration) -> Result<ExitStatus, KubeError> {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if begun.elapsed() > within => {
                    let seconds = within.as_secs_f64();
                    return Err(self.failed(&format!("it did not end within {seconds} s")));
                }
                Ok(None) => std::thread::sleep(POLL_INTERVAL),
                Err(error) => return Err(self.failed(&error.to_string())),
            }
        }
    }

    /// Parses the output. No error includes it, because it may contain a secret.
    fn read(&self, printed: &[u8]) -> Result<Issued, KubeError> {
        let credential: ExecCredential = serde_json::from_slice(printed).map_err(|e| {
            let (line, column) = (e.line(), e.column());
            self.failed(&format!(
                "it printed no ExecCredential (line {line}, column {column} of its output)"
            ))
        })?;
        if credential.kind != "ExecCredential" || credential.api_version != self.api_version {
            return Err(self.failed(&format!(
                "it returned {} of {}, and not ExecCredential of {}",
                credential.kind, credential.api_version, self.api_version
            )));
        }
        let status = credential.status;
        let status = status.ok_or_else(|| self.failed("it returned no status"))?;
        let token = status.token.filter(|token| !token.is_empty());
        let identity = match (status.client_certificate_data, status.client_key_data) {
            (Some(chain), Some(key)) => Some((chain.into_bytes(), key.into_bytes())),
            (None, None) => None,
            _ => {
                let reason = "it returned only one of clientCertificateData and clientKeyData";
                return Err(self.failed(reason));
            }
        };
        if token.is_none() && identity.is_none() {
            return Err(self.failed("it returned neither a token nor a client certificate"));
        }
        let ends = match status.expiration_timestamp {
            None => None,
            Some(text) => Some(
                time(&text)
                    .ok_or_else(|| self.failed("its expirationTimestamp is no time of RFC 3339"))?,
            ),
        };
        Ok(Issued {
            token,
            identity,
            ends,
        })
    }

    fn not_started(&self, error: &std::io::Error) -> KubeError {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "it was not found".to_owned(),
            _ => error.to_string(),
        };
        match &self.install_hint {
            Some(hint) => {
                let hint: Vec<&str> = hint.split_whitespace().collect();
                self.failed(&format!("{reason}: {}", hint.join(" ")))
            }
            None => self.failed(&reason),
        }
    }

    fn failed(&self, reason: &str) -> KubeError {
        KubeError::Credentials {
            what: format!("credential plugin `{}`", self.command.display()),
            reason: reason.to_owned(),
        }
    }
}

/// Parses an RFC 3339 timestamp.
fn time(text: &str) -> Option<SystemTime> {
    let (seconds, nanos) = parse_rfc3339(text)?;
    let since = Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests;
