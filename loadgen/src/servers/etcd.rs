//! Starts an etcd binary with a temporary data folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_api::client::config::ClientConfig;
use kube_api::client::KubeAccess;
use load::child::{ChildError, ChildServer};
use report::result::ServerSetup;
use tempfile::TempDir;
use tokio::process::Command;

use super::launcher::{
    Launcher, QUOTA_BYTES, READY_TIMEOUT, StartError, shown, spawn_child, status, words,
};
use super::ports::free_url;
use super::running::{OnDisk, Running};

/// The longest time that a server may take to write its data and exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of entries between two snapshots, which etcd keeps of its raft log in memory, besides
/// those for slow followers: the default since 3.6. Before, it was ten times as many, so that
/// memory at rest was that of the log.
const SNAPSHOT_COUNT: u64 = 10_000;
/// The flag with which etcd serves `/debug/pprof`. It also samples lock contention, one event in
/// five.
const PROFILES: &str = "--enable-pprof";
/// The longest time that a restarted server may take to read its data.
const RESTART_TIMEOUT: Duration = Duration::from_secs(120);

impl Launcher {
    pub(super) async fn start_etcd(&self, path: &Path, fsync: bool) -> Result<Running, StartError> {
        let help = Command::new(path).arg("--help").output().await;
        let help = help.map_err(|source| ChildError::Spawn {
            program: path.to_owned(),
            source,
        })?;
        let help = [&help.stdout[..], &help.stderr].concat();
        let help = String::from_utf8_lossy(&help);
        let no_fsync = !fsync && help.contains("--unsafe-no-fsync");
        let folder = data_folder()?;
        let (client_url, peer_url) = (free_url()?, free_url()?);
        let quota = QUOTA_BYTES.to_string();
        let cluster = format!("default={peer_url}");
        let mut args = words(&["--data-dir"]);
        args.push(folder.path().as_os_str().to_owned());
        args.extend(words(&[
            "--listen-client-urls",
            &client_url,
            "--advertise-client-urls",
            &client_url,
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
            "--initial-cluster",
            &cluster,
            "--quota-backend-bytes",
            &quota,
            "--log-level",
            "warn",
        ]));
        if no_fsync {
            args.push("--unsafe-no-fsync".into());
        }
        if self.serves_profiles && help.contains(PROFILES) {
            args.push(PROFILES.into());
        }
        if default_of(&help, "--snapshot-count").is_some_and(|count| count > SNAPSHOT_COUNT) {
            args.extend(words(&["--snapshot-count", &SNAPSHOT_COUNT.to_string()]));
        }
        args.extend(self.own_program.given.flags.iter().map(OsString::from));
        let mut child = spawn_child("etcd", &self.own_program, path, &args)?;
        let config = ClientConfig::new(&client_url)?;
        let version = until_answering(&config, &mut child, READY_TIMEOUT).await?;
        Ok(Running {
            etcd: Some(config),
            kube_url: None,
            kube_access: KubeAccess::default(),
            setup: ServerSetup {
                program: format!("etcd {version}"),
                flags: shown(&args),
                allocator: Some("go".to_owned()),
                fsync: Some(!no_fsync),
                quota_bytes: Some(QUOTA_BYTES),
                ..ServerSetup::default()
            },
            unary_encoding: "buffered",
            processes: vec![child],
            on_disk: Some(OnDisk {
                folder,
                program: path.to_owned(),
                args,
            }),
            own_program: self.own_program.clone(),
        })
    }
}

impl Running {
    /// Restarts a server that keeps its data on disk, with the same flags, ports and folder, after
    /// it was seeded; other servers are not restarted. Returns whether it was restarted, once the
    /// server responds again.
    ///
    /// After seeding, a server still holds memory that seeding needed, which in etcd's heap is
    /// garbage. A server in production was not seeded a moment ago, and a server that keeps its
    /// data in memory has nothing to restart from.
    ///
    /// # Errors
    /// [`StartError`] if the server does not respond again.
    pub async fn restart_on_disk(&mut self) -> Result<bool, StartError> {
        let (Some(on_disk), Some(config)) = (&self.on_disk, &self.etcd) else {
            return Ok(false);
        };
        // It is the only process so far: the Kubernetes tier is started in front of a seeded etcd.
        let Some(child) = self.processes.pop() else {
            return Ok(false);
        };
        child.terminate(STOP_TIMEOUT).await;
        let child = spawn_child("etcd", &self.own_program, &on_disk.program, &on_disk.args)?;
        self.processes.push(child);
        for child in &mut self.processes {
            until_answering(config, child, RESTART_TIMEOUT).await?;
        }
        self.setup.restarted_after_seeding = true;
        Ok(true)
    }
}

/// Returns the default of a flag in etcd's `--help`, if it is a number: `--snapshot-count '10000'`.
fn default_of(help: &str, flag: &str) -> Option<u64> {
    let mut words = help.split_whitespace();
    words.find(|word| *word == flag)?;
    words.next()?.trim_matches('\'').parse().ok()
}

/// Returns the existing temporary folders of this process, with data of servers and samples of
/// profilers. They remain if the process ends without dropping its [`Running`].
#[must_use]
pub fn folders_left() -> Vec<PathBuf> {
    let prefixes = [folder_prefix(), measure::perf_folder_prefix()];
    let entries = std::fs::read_dir(std::env::temp_dir());
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            prefixes.iter().any(|prefix| name.starts_with(prefix))
        })
        .map(|entry| entry.path())
        .collect()
}

/// Creates a folder for a server's data.
pub(super) fn data_folder() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix(&folder_prefix()).tempdir()
}

/// Returns the prefix of the names of this process's data folders.
fn folder_prefix() -> String {
    format!("loadgen-etcd-{}-", std::process::id())
}

/// Queries the server's status until it responds: etcd prints no line that all its versions share.
async fn until_answering(
    config: &ClientConfig,
    child: &mut ChildServer,
    within: Duration,
) -> Result<String, StartError> {
    let deadline = Instant::now() + within;
    loop {
        // A server that accepts the connection and does not respond is late, too.
        let left = deadline.saturating_duration_since(Instant::now());
        if let Ok(Ok(status)) = tokio::time::timeout(left, status(config)).await {
            return Ok(status.version);
        }
        if let Some(death) = child.died().await {
            return Err(ChildError::Died(death).into());
        }
        if Instant::now() > deadline {
            return Err(child.slow(within).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_read_from_the_help() {
        let help = "Member:\n  --wal-dir ''\n    Path.\n  --snapshot-count '100000'\n    Number of transactions.\n  --auto-tls 'false'";
        for (flag, default) in [
            ("--snapshot-count", Some(100_000)),
            ("--auto-tls", None),
            ("--snapshot", None),
        ] {
            assert_eq!(default_of(help, flag), default, "{flag}");
        }
    }

    #[test]
    fn a_data_folder_that_stays_is_found_by_its_name() {
        let folder = tempfile::Builder::new().prefix(&folder_prefix()).tempdir();
        let folder = folder.expect("a temporary folder");
        assert!(folders_left().contains(&folder.path().to_owned()));
    }
}
