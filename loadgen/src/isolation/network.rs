//! A network namespace for a run, with one congestion control for everything that the run starts,
//! independent of the system's.
//!
//! The system's congestion control may pace sending, as BBR does. Between processes of one machine
//! that has no benefit: packets wait for timers, and sending takes half as much CPU time again
//! (`docs/performance.md`). The setting belongs to a network namespace, so a run that connects to
//! nothing outside can use another one without affecting other processes, and without any change to
//! a server.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The hidden command that tests whether this system permits a namespace.
pub const COMMAND: &str = "try-network-namespace";

/// The network of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Congestion control of its TCP connections; `None` if the kernel does not report it.
    pub congestion_control: Option<String>,
    /// Whether the run has a namespace of its own.
    pub namespace: bool,
    /// The reason why it has none.
    pub reason: Option<String>,
}

impl Network {
    /// Returns the system's network; `reason` says why the run has no namespace.
    #[must_use]
    pub fn of_the_system(reason: &str) -> Self {
        Self {
            congestion_control: read_back().ok(),
            namespace: false,
            reason: Some(reason.to_owned()),
        }
    }
}

/// Whether a run gets a network namespace of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkNamespace {
    /// If the system permits it and loadgen starts every target.
    #[default]
    Auto,
    /// Always; exit code 2 if that is impossible.
    Yes,
    /// Never.
    No,
}

/// The reason why no namespace can be used.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A namespace cannot be created.
    #[error("this system allows no network namespace: {0}")]
    Unshare(std::io::Error),
    /// The user cannot be mapped into the namespace.
    #[error("this system maps no user into a namespace: {path}: {source}")]
    Map {
        /// The kernel's file that cannot be written.
        path: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The loopback interface of the namespace cannot be set up.
    #[error("the loopback interface of the network namespace: {0}")]
    Loopback(std::io::Error),
    /// The congestion control of the namespace cannot be set.
    #[error("the network namespace takes no congestion control of {names}: {source}")]
    CongestionControl {
        /// The names that were tried.
        names: String,
        /// The kernel's error for the last one.
        source: std::io::Error,
    },
    /// The congestion control of a connection within the namespace cannot be read.
    #[error("a connection within the network namespace: {0}")]
    Connection(std::io::Error),
    /// A connection has a different congestion control from the one that was set.
    #[error("connections have congestion control {found} where {set} was set")]
    Ignored {
        /// The congestion control that was set.
        set: String,
        /// The congestion control of a connection.
        found: String,
    },
}

/// Moves this process into a network namespace of its own. The inner error is the reason why the
/// system does not permit it; the process is unchanged then.
///
/// A process cannot leave a namespace that turns out to be unusable (if a security module withdraws
/// the capabilities within it, or `/proc/sys` is read-only), so a child process tries it first.
///
/// # Errors
/// If the child cannot be started, or succeeds and this process then fails.
pub fn enter_if_possible(own_program: &Path) -> Result<Result<Network, String>, Failure> {
    let tried = Command::new(own_program)
        .arg(COMMAND)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", own_program.display()))
        .map_err(Failure::usage)?;
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        let reason = said.trim().trim_start_matches("error: ").to_owned();
        return Ok(Err(reason));
    }
    let congestion_control = enter().map_err(Failure::usage)?;
    Ok(Ok(Network {
        congestion_control: Some(congestion_control),
        namespace: true,
        reason: None,
    }))
}

#[cfg(target_os = "linux")]
pub use linux::enter;
#[cfg(target_os = "linux")]
use linux::read_back;

/// Fails: only Linux has network namespaces.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn enter() -> Result<String, NetworkError> {
    Err(NetworkError::Unshare(
        std::io::ErrorKind::Unsupported.into(),
    ))
}

#[cfg(not(target_os = "linux"))]
fn read_back() -> Result<String, NetworkError> {
    Err(NetworkError::Connection(
        std::io::ErrorKind::Unsupported.into(),
    ))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use nix::errno::Errno;
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::{getgid, getuid};
    use rustix::net::sockopt::tcp_congestion;
    use rustix::net::{
        AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send,
        socket_with,
    };

    use tikv_jemalloc_ctl::background_thread;

    use super::NetworkError;

    /// The kernel's file with the congestion control of new TCP connections of the namespace.
    const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    /// The congestion controls to try, in order; none of them paces. `cubic` is Linux's default, so
    /// most machines that run etcd have it. A system with another default may not permit `cubic` in
    /// namespaces; `reno` is part of every kernel and always permitted.
    const UNPACED: [&str; 2] = ["cubic", "reno"];
    /// The index of `lo`, the same in every namespace.
    const LOOPBACK_INDEX: i32 = 1;

    /// Moves this process, which must have a single thread, into a network namespace, sets its
    /// loopback interface up, and returns the congestion control of its TCP connections.
    ///
    /// # Errors
    /// [`NetworkError`]; the process may then be in an unusable namespace.
    pub fn enter() -> Result<String, NetworkError> {
        unshare_network()?;
        set_loopback_up().map_err(NetworkError::Loopback)?;
        let set = set_congestion_control()?;
        let found = read_back()?;
        match found == set {
            true => Ok(found),
            false => Err(NetworkError::Ignored {
                set: set.to_owned(),
                found,
            }),
        }
    }

    /// Enters a new network namespace. Ordinary users need a user namespace for that, in which they
    /// keep their identity, so that files are written as theirs.
    fn unshare_network() -> Result<(), NetworkError> {
        let (uid, gid) = (getuid(), getgid());
        let refused = |errno: Errno| NetworkError::Unshare(errno.into());
        match unshare(CloneFlags::CLONE_NEWNET) {
            Ok(()) => return Ok(()),
            Err(Errno::EPERM) => {}
            Err(errno) => return Err(refused(errno)),
        }
        unshare_single_threaded(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
            .map_err(refused)?;
        let maps = [
            ("/proc/self/uid_map", format!("{uid} {uid} 1\n")),
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/gid_map", format!("{gid} {gid} 1\n")),
        ];
        for (path, text) in maps {
            std::fs::write(path, text).map_err(|source| NetworkError::Map { path, source })?;
        }
        Ok(())
    }

    /// Calls `unshare` with the allocator's background threads stopped meanwhile, since the kernel
    /// permits a user namespace to single-threaded processes only.
    fn unshare_single_threaded(flags: CloneFlags) -> Result<(), Errno> {
        let has_threads = background_thread::read().unwrap_or(false);
        if has_threads {
            background_thread::write(false).map_err(|_| Errno::EBUSY)?;
        }
        let unshared = unshare(flags);
        if has_threads {
            // If they cannot be restarted, the threads that use memory release it.
            background_thread::write(true).ok();
        }
        unshared
    }

    /// Sends the kernel an `RTM_NEWLINK` for `lo` (rtnetlink(7)), and reads its acknowledgement.
    fn set_loopback_up() -> io::Result<()> {
        // Protocol 0 is the default of the family: NETLINK_ROUTE.
        const ROUTE: Option<Protocol> = None;
        const RTM_NEWLINK: u16 = 16;
        const NLM_F_REQUEST_AND_ACK: u16 = 1 | 4;
        const NLMSG_ERROR: u16 = 2;
        const IFF_UP: u32 = 1;
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            ROUTE,
        )?;
        // struct nlmsghdr, then struct ifinfomsg.
        let mut message = Vec::with_capacity(32);
        message.extend(32_u32.to_ne_bytes());
        message.extend(RTM_NEWLINK.to_ne_bytes());
        message.extend(NLM_F_REQUEST_AND_ACK.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([0; 4]);
        message.extend(LOOPBACK_INDEX.to_ne_bytes());
        message.extend(IFF_UP.to_ne_bytes());
        message.extend(IFF_UP.to_ne_bytes());
        send(&socket, &message, SendFlags::empty())?;
        let mut answer = [0_u8; 1024];
        let (_, len) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        // struct nlmsghdr, whose type follows its length, then struct nlmsgerr, which begins with
        // the negated errno.
        let kind = answer
            .get(4..6)
            .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
        let errno = <[u8; 4]>::try_from(&answer[16..20]).map_or(0, i32::from_ne_bytes);
        match (len >= 20 && kind == Some(NLMSG_ERROR), errno) {
            (true, 0) => Ok(()),
            (true, errno) => Err(io::Error::from_raw_os_error(-errno)),
            (false, _) => Err(io::Error::other(
                "the kernel does not acknowledge a message",
            )),
        }
    }

    fn set_congestion_control() -> Result<&'static str, NetworkError> {
        let mut refused = None;
        for name in UNPACED {
            match std::fs::write(CONGESTION_CONTROL, name) {
                Ok(()) => return Ok(name),
                Err(error) => refused = Some(error),
            }
        }
        Err(NetworkError::CongestionControl {
            names: UNPACED.join(", "),
            source: refused.unwrap_or_else(|| io::ErrorKind::NotFound.into()),
        })
    }

    /// Returns the congestion control of both ends of a connection over loopback.
    pub(super) fn read_back() -> Result<String, NetworkError> {
        let ends = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            let server = listener.accept()?.0;
            Ok((tcp_congestion(&client)?, tcp_congestion(&server)?))
        };
        let (client, server) = ends().map_err(NetworkError::Connection)?;
        match client == server {
            true => Ok(client),
            false => Err(NetworkError::Ignored {
                set: client,
                found: server,
            }),
        }
    }
}
