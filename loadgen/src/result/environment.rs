//! Where and with what a run was made: without it a number cannot be compared with another.

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
    /// What the system chose as TCP's congestion control, as `bbr`: part of what a list costs over a socket. Our servers and
    /// the generator take another between processes of one machine. Null where the kernel does not tell.
    #[serde(default)]
    pub tcp_congestion_control: Option<String>,
    /// `vm.percpu_pagelist_high_fraction`: the part of memory that Linux keeps as lists of free pages, one list a core; 0 where it
    /// fits them to the load, and while they grow, everything that crosses a socket is slower. Null where the kernel does not tell.
    #[serde(default)]
    pub free_page_lists: Option<u32>,
    /// Whether the host of this virtual machine takes free pages back (virtio's free page reporting): to write to one again costs
    /// several times as much, and whatever takes new memory, the buffers of sockets too, is slower for that moment. Null where
    /// the kernel does not tell.
    #[serde(default)]
    pub free_page_reporting: Option<bool>,
    /// `loadgen`'s version.
    pub version: String,
    /// The commit that it was built from, `-dirty` when the tree had changes; null outside a repository.
    pub commit: Option<String>,
    /// `release` or `debug`: a debug build's figures mean nothing.
    pub profile: String,
    /// The command line, argument by argument. Secrets are replaced before they get here.
    pub command: Vec<String>,
    /// Each target of the run.
    pub servers: Vec<ServerSetup>,
    /// The generator's side of the connection.
    pub client: ClientSettings,
    /// The disk that servers started by this run keep their data on; null when they keep it in memory or run elsewhere.
    pub disk: Option<Disk>,
}

/// How one target was set up. What a foreign endpoint does not tell is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerSetup {
    /// The name by which cases refer to it.
    pub target: String,
    /// Program and version, as `etcd 3.7.1`.
    pub program: String,
    /// Every flag that it was started with.
    pub flags: Vec<String>,
    /// The allocator and its settings, as `jemalloc dirty_decay_ms:1000`, or `go`.
    pub allocator: Option<String>,
    /// Whether a write waits for the disk; null when there is no disk or nobody says.
    pub fsync: Option<bool>,
    /// Quota of the database, in bytes.
    pub quota_bytes: Option<u64>,
    /// Whether it was started anew between seeding and taking its idle figures, as every server is that keeps its data on disk.
    #[serde(default)]
    pub restarted_after_seeding: bool,
}

impl ServerSetup {
    /// Its flags without the ports and folders of this very start.
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

/// The generator's transport settings, which govern what servers may send.
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
    /// The folder that was asked about.
    pub path: String,
    /// File system type, as `ext4` or `tmpfs`.
    pub file_system: String,
    /// The mounted device or source.
    pub device: String,
    /// Free bytes when the run began.
    pub free_bytes: u64,
}
