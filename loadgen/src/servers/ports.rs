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
/// If no port is free below those of outgoing connections.
pub(super) fn free_url() -> io::Result<String> {
    let ports = u32::from(range_begins().saturating_sub(LOWEST));
    let first = std::process::id().wrapping_mul(STRIDE);
    for _ in 0..ports {
        let nth = first.wrapping_add(CHOSEN.fetch_add(1, Ordering::Relaxed)) % ports;
        // It is less than the range's begin, so it fits.
        let port = LOWEST + nth as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(format!("http://127.0.0.1:{port}"));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no port from {LOWEST} on is free below those of outgoing connections"),
    ))
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
        let urls: BTreeSet<_> = (0..20).map(|_| free_url().expect("a free port")).collect();
        assert_eq!(urls.len(), 20);
        for url in urls {
            let (_, port) = url.rsplit_once(':').expect("a port");
            let port: u16 = port.parse().expect("a number");
            assert!((LOWEST..range_begins()).contains(&port), "{port}");
        }
    }
}
