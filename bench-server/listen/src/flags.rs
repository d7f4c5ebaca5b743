//! Flags of both tiers' connections.

use std::time::Duration;

use clap::Args;

/// Flags that both tiers have.
#[derive(Debug, Clone, Args)]
pub struct CommonFlags {
    /// Threads that serve connections; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    pub worker_threads: usize,

    /// Coalesce small writes to a socket that are ready at the same time. Turn off only to measure
    /// the effect.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, hide = true)]
    pub gather_writes: bool,

    /// Serve endpoints for measurements: POST /debug/settle waits until freed memory is returned to
    /// the system.
    #[arg(long)]
    pub enable_debug_endpoints: bool,

    /// Memory of responses over all connections of a tier, bytes. Responses that are buffered whole
    /// wait for memory and are refused after 15 s; others get small frames while more than a
    /// quarter of it is in flight. 0 means a quarter of the memory of the machine or of the control
    /// group.
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub response_memory_bytes: u64,

    /// Time that a client may take nothing of a waiting response before its stream is reset. Slow
    /// readers, and clients with nothing to read, are not affected. 0s means no limit.
    #[arg(long, value_parser = parse_duration, default_value = "90s", value_name = "DURATION")]
    pub stalled_reader_timeout: Duration,

    /// Time that a peer may acknowledge nothing, or keep its TCP window closed, before its
    /// connection is closed (Linux). 0s leaves it to the kernel.
    #[arg(long, value_parser = parse_duration, default_value = "20s", value_name = "DURATION")]
    pub tcp_user_timeout: Duration,
}

/// Parses `300ms`, `5s`, `10m`, `1h30m`.
///
/// # Errors
/// A message that says what is wrong with `text`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| e.to_string())
}
