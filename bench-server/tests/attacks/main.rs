//! What strangers may do to the server, on both of its ports: each attack goes against a server of
//! its own, whose memory must stay within [`MOST_GROWTH_BYTES`] of what it was at rest, and which
//! must serve another client meanwhile.
//!
//! Attacks are bounded in count; what is waited for is a count of the server's, not a time.
//! `docs/reliability.md` has what each takes with its limit and without. A new attack gets a
//! module, and a line there.

mod buffered;
mod connections;
mod endpoints;
mod frames;
mod resets;
mod silence;
mod stalled;
mod streams;
mod victim;

/// Memory that an attack may cost.
const MOST_GROWTH_BYTES: u64 = 64 << 20;
