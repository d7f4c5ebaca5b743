//! Loopback ports for servers that do not report the port that they got for port 0, or that must
//! have the same one again after a restart.
//!
//! They are below the range from which the system gives ports to outgoing connections: one of those
//! could take a port between its choice and the server's start, or while the server restarts.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The lowest port that is chosen.
const LOWEST: u16 = 10_000;
/// The file with the range of the ports of outgoing connections, and the begin of Linux' default.
const RANGE_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const DEFAULT_RANGE_BEGINS: u16 = 32_768;
/// The distance between the first ports of two processes with consecutive ids.
const STRIDE: u32 = 1_009;

/// The number of ports chosen by this process.
static CHOSEN: AtomicU32 = AtomicU32::new(0);

/// Returns a loopback URL whose port is free, and which this process has not returned lately.
///
/// # Errors
/// If no port is free.
pub(super) fn free_url() -> io::Result<String> {
    let port = free_port_below(range_begins());
    let port = port.map_or_else(any_port, Ok)?;
    Ok(format!("http://127.0.0.1:{port}"))
}

/// Returns a free port from [`LOWEST`] up to, and excluding, `end`; `None` if there is none.
fn free_port_below(end: u16) -> Option<u16> {
    let ports = u32::from(end.saturating_sub(LOWEST));
    let first = std::process::id().wrapping_mul(STRIDE);
    (0..ports).find_map(|_| {
        let nth = first.wrapping_add(CHOSEN.fetch_add(1, Ordering::Relaxed)) % ports;
        // It is less than `end`, so it fits.
        let port = LOWEST + nth as u16;
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    })
}

/// Returns a port that outgoing connections may take, too: where the system gives them all ports.
fn any_port() -> io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

/// Returns the lowest port of outgoing connections.
fn range_begins() -> u16 {
    let range = std::fs::read_to_string(RANGE_FILE).unwrap_or_default();
    let begins = range.split_whitespace().next();
    begins
        .and_then(|port| port.parse().ok())
        .unwrap_or(DEFAULT_RANGE_BEGINS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_differ_and_are_not_those_of_outgoing_connections() {
        let end = LOWEST + 1_000;
        let ports: BTreeSet<_> = (0..20).filter_map(|_| free_port_below(end)).collect();
        assert_eq!(ports.len(), 20);
        assert!(
            ports.iter().all(|port| (LOWEST..end).contains(port)),
            "{ports:?}"
        );
    }

    #[test]
    fn where_outgoing_connections_have_all_ports_any_is_taken() {
        assert_eq!(free_port_below(1_024), None);
        assert!(any_port().is_ok_and(|port| port > 0));
    }
}
