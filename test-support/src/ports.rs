//! Ports for servers that must know them before they start, or have the same ones again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The range of the ports: below those of outgoing connections as Linux has them by default, any of
/// which could take a port before the server binds it.
const LOWEST: u16 = 10_000;
const COUNT: u32 = 20_000;
/// The distance between the first ports of two processes with consecutive ids.
const STRIDE: u32 = 1_009;

/// The number of ports chosen by this process.
static CHOSEN: AtomicU32 = AtomicU32::new(0);

/// Returns a loopback port that is free, and that this process has not returned lately.
///
/// # Panics
/// If none is free.
#[must_use]
pub fn free_port() -> u16 {
    let first = std::process::id().wrapping_mul(STRIDE);
    let mut ports = (0..COUNT).map(|_| {
        let nth = first.wrapping_add(CHOSEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        LOWEST + nth as u16
    });
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port")
}
