//! A network namespace of a run's own: one congestion control for everything that the run starts,
//! whatever the system's is.
//!
//! A system may have chosen a congestion control that paces what is sent, as BBR does. Between
//! processes of one machine there is no path to spare: packets wait for timers, and sending takes
//! half as much CPU again (`docs/performance.md`). The setting is one of a network namespace, so a
//! run that reaches nothing outside can have another without anybody else noticing, and without any
//! server knowing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The hidden command that tries whether this system allows a namespace, and ends.
pub const COMMAND: &str = "try-network-namespace";

/// The network that a run had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Congestion control of its TCP connections; `None` where the kernel does not tell.
    pub congestion_control: Option<String>,
    /// Whether it had a namespace of its own.
    pub namespace: bool,
    /// Why not.
    pub reason: Option<String>,
}

impl Network {
    /// Returns the network of the system, used for this reason.
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
    /// Where the system allows it and loadgen starts every target.
    #[default]
    Auto,
    /// In any case, or exit code 2.
    Yes,
    /// Never.
    No,
}

/// Why this system allows no namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A namespace cannot be made.
    #[error("this system allows no network namespace: {0}")]
    Unshare(std::io::Error),
    /// The user cannot be mapped into it.
    #[error("this system maps no user into a namespace: {path}: {source}")]
    Map {
        /// The kernel's file.
        path: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Its loopback interface stays down.
    #[error("the loopback interface of the network namespace: {0}")]
    Loopback(std::io::Error),
    /// Its congestion control cannot be set.
    #[error("the network namespace takes no congestion control of {names}: {source}")]
    CongestionControl {
        /// Those that were tried.
        names: String,
        /// What the kernel said of the last one.
        source: std::io::Error,
    },
    /// Its connections cannot be asked for their congestion control.
    #[error("a connection within the network namespace: {0}")]
    Connection(std::io::Error),
    /// A connection has another congestion control than was set.
    #[error("connections have congestion control {found} where {set} was set")]
    Ignored {
        /// What was set.
        set: String,
        /// What a connection has.
        found: String,
    },
}

/// Moves this process into a network namespace of its own. The inner error is the reason why this
/// system does not allow it; then nothing has changed.
///
/// A process cannot return from a namespace that turns out to be of no use (where a security module
/// takes the rights within it away, or `/proc/sys` is read-only), so a child tries first.
///
/// # Errors
/// When the child cannot be started, or succeeds where this process then fails.
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

/// Fails: network namespaces are Linux's.
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

    /// What TCP connections of the namespace begin with.
    const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    /// The first that the system allows is taken; none of them paces. `cubic` is Linux's default,
    /// so most machines that run etcd have it. A system that chose another may keep `cubic` from
    /// namespaces; `reno` is part of every kernel and allowed everywhere.
    const UNPACED: [&str; 2] = ["cubic", "reno"];
    /// The index of `lo`, which the kernel gives it in every namespace.
    const LOOPBACK_INDEX: i32 = 1;

    /// Moves this process, which must have one thread only, into a network namespace whose loopback
    /// interface is up, and returns the congestion control that TCP connections have there.
    ///
    /// # Errors
    /// [`NetworkError`]; then the process may be in a namespace that is of no use.
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

    /// Ordinary users need a user namespace for it, in which they are who they were: files are
    /// written as theirs.
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

    /// The kernel gives a user namespace to processes of one thread only, and the allocator may
    /// have threads of its own: they end first, and begin again.
    fn unshare_single_threaded(flags: CloneFlags) -> Result<(), Errno> {
        let has_threads = background_thread::read().unwrap_or(false);
        if has_threads {
            background_thread::write(false).map_err(|_| Errno::EBUSY)?;
        }
        let unshared = unshare(flags);
        if has_threads {
            // Without them memory is given back by the threads that use it.
            background_thread::write(true).ok();
        }
        unshared
    }

    /// Sends the kernel an `RTM_NEWLINK` for `lo` (rtnetlink(7)), and reads its acknowledgement.
    fn set_loopback_up() -> io::Result<()> {
        // Number 0 is the default of the family: NETLINK_ROUTE.
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

    /// Returns the congestion control that both ends of a connection over loopback have.
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
