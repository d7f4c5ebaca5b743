//! Flags of whatever serves connections.

use std::time::Duration;

use clap::Args;

/// Flags that both tiers have.
#[derive(Debug, Clone, Args)]
pub struct CommonFlags {
    /// Threads that serve connections; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    pub worker_threads: usize,

    /// Gather small writes to a socket that are ready together. Off only to measure what it does.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, hide = true)]
    pub gather_writes: bool,

    /// Serve what measuring needs and nobody else does: POST /debug/settle waits until freed memory is given back.
    #[arg(long)]
    pub enable_debug_endpoints: bool,

    /// Bytes that responses may hold over all connections of a tier: those that are gathered as a whole wait for room and are
    /// refused after 15 s; others get small frames while more than a quarter of it is under way. 0 means a quarter of the
    /// memory of the machine or of the control group.
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub response_memory_bytes: u64,

    /// How long a client may take nothing of a response that waits for it before its stream is reset; one that reads
    /// slowly, or has nothing to read, stays. 0s means for ever.
    #[arg(long, value_parser = parse_duration, default_value = "90s", value_name = "DURATION")]
    pub stalled_reader_timeout: Duration,

    /// How long a peer may acknowledge nothing that was sent, or keep its TCP window shut, before its connection is closed
    /// (Linux). 0s leaves it to the kernel.
    #[arg(long, value_parser = parse_duration, default_value = "20s", value_name = "DURATION")]
    pub tcp_user_timeout: Duration,
}

/// Reads `300ms`, `5s`, `10m`, `1h30m`.
///
/// # Errors
/// Says what is wrong with `text`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| e.to_string())
}
