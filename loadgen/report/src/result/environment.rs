//! The machine and the settings of a run, without which its numbers cannot be compared with others.

use serde::{Deserialize, Serialize};

/// Machine, program and servers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// CPU architecture, as `x86_64`.
    pub machine: String,
    /// CPU model as the kernel names it.
    pub cpu_model: String,
    /// Logical CPUs that this process may use.
    pub cores: u32,
    /// Physical memory, in bytes.
    pub memory_bytes: u64,
    /// Operating system's name and version.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// TCP's congestion control, as `cubic`, read from a connection of this run: the same for the
    /// generator and for every target that the run started. Null where the kernel does not report
    /// it. Results without this field have the system's setting instead, as
    /// `tcp_congestion_control`.
    #[serde(default, alias = "tcp_congestion_control")]
    pub congestion_control: Option<String>,
    /// Whether generator and servers ran in a network namespace of their own.
    #[serde(default)]
    pub network_namespace: bool,
    /// Why they did not, where that is so.
    #[serde(default)]
    pub network_namespace_reason: Option<String>,
    /// CPUs that started servers were pinned to, as `0,2-3`; null where they were not pinned.
    #[serde(default)]
    pub server_cpus: Option<String>,
    /// CPUs that the generator was pinned to; null where it was not pinned.
    #[serde(default)]
    pub client_cpus: Option<String>,
    /// `vm.percpu_pagelist_high_fraction`: the part of memory that Linux keeps as lists of free
    /// pages, one list per core. At 0 Linux adapts the lists to the load, and while they grow,
    /// everything that crosses a socket is slower. Null where the kernel does not report it.
    #[serde(default)]
    pub free_page_lists: Option<u32>,
    /// Whether the host of this virtual machine takes free pages back (virtio's free page
    /// reporting). Writing to such a page again costs several times as much, so everything that
    /// takes new memory, including the buffers of sockets, is slower for that moment. Null where
    /// the kernel does not report it.
    #[serde(default)]
    pub free_page_reporting: Option<bool>,
    /// `loadgen`'s version.
    pub version: String,
    /// The commit that `loadgen` was built from, with `-dirty` when the tree had changes; null
    /// outside a repository.
    pub commit: Option<String>,
    /// `release` or `debug`. The measurements of a debug build mean nothing.
    pub profile: String,
    /// The command line, one entry per argument. Secrets have been replaced.
    pub command: Vec<String>,
    /// Each target of the run.
    pub servers: Vec<ServerSetup>,
    /// The transport settings of the generator's connections.
    pub client: ClientSettings,
    /// The disk that servers started by this run keep their data on; null when they keep it in
    /// memory or run elsewhere.
    pub disk: Option<Disk>,
}

impl Environment {
    /// Returns version and commit of the `loadgen` that measured.
    #[must_use]
    pub fn program(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("unknown commit");
        format!("{} ({commit})", self.version)
    }

    /// Returns one line about the network and the CPUs, which all targets of the run share. `None`
    /// for results that lack these fields.
    #[must_use]
    pub fn shared_line(&self) -> Option<String> {
        let control = self.congestion_control.as_ref()?;
        let network = match (self.network_namespace, &self.network_namespace_reason) {
            (true, _) => "in a network namespace of the run's own".to_owned(),
            (false, Some(reason)) => format!("the system's ({reason})"),
            (false, None) => return None,
        };
        let on = |who, cpus: &Option<String>| {
            let cpus = cpus.as_ref();
            cpus.map_or_else(String::new, |cpus| format!("; {who} on CPUs {cpus}"))
        };
        Some(format!(
            "Congestion control {control}, {network}, for servers and generator alike{}{}.",
            on("servers", &self.server_cpus),
            on("generator", &self.client_cpus)
        ))
    }
}

/// The setup of one target. What an existing endpoint does not report is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerSetup {
    /// The name by which cases refer to it.
    pub target: String,
    /// Program and version, as `etcd 3.7.1`.
    pub program: String,
    /// Every flag that the program was started with.
    pub flags: Vec<String>,
    /// The allocator and its settings, as `jemalloc dirty_decay_ms:1000`, or `go`.
    pub allocator: Option<String>,
    /// Whether a write waits for the disk; null when there is no disk or it is not known.
    pub fsync: Option<bool>,
    /// Quota of the database, in bytes.
    pub quota_bytes: Option<u64>,
    /// Whether the server was restarted between seeding and reading its idle memory, as is done
    /// with every server that keeps its data on disk.
    #[serde(default)]
    pub restarted_after_seeding: bool,
}

impl ServerSetup {
    /// Returns the flags without the ports and folders that differ from start to start.
    #[must_use]
    pub fn lasting_flags(&self) -> Vec<String> {
        let flags = self.flags.iter();
        flags
            .map(|flag| match flag.find("127.0.0.1:") {
                Some(at) => flag[..at].to_owned(),
                None if flag.contains("loadgen-etcd-") => String::new(),
                None => flag.clone(),
            })
            .collect()
    }
}

/// The generator's transport settings, which limit what servers may send.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClientSettings {
    /// HTTP/2 flow-control window of a stream, in bytes.
    pub stream_window_bytes: u32,
    /// HTTP/2 flow-control window of a connection, in bytes.
    pub connection_window_bytes: u32,
    /// Largest HTTP/2 frame that the generator accepts, in bytes.
    pub max_frame_bytes: u32,
    /// How lists are decoded: `raw` (checked on the wire bytes) or `typed`.
    pub decode_mode: String,
    /// The generator's allocator.
    pub allocator: String,
}

/// A disk that servers keep their data on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disk {
    /// The folder whose file system is described.
    pub path: String,
    /// File system type, as `ext4` or `tmpfs`.
    pub file_system: String,
    /// The mounted device or source.
    pub device: String,
    /// Free bytes when the run began.
    pub free_bytes: u64,
}
