//! Attacks that an unauthenticated client can make on either port of the server. Each attack has
//! its own server, whose memory must stay within [`MAX_GROWTH_BYTES`] of its size at rest, and
//! which must serve another client during the attack.
//!
//! Attacks are limited by count, and tests wait for a metric of the server instead of for a time.
//! `docs/reliability.md` lists what each attack costs with and without the server's limit. A new
//! attack needs a module here and a line there.

mod buffered;
mod connections;
mod endpoints;
mod frames;
mod resets;
mod silence;
mod stalled;
mod streams;
mod uploads;
mod victim;
mod watches;

/// Maximum growth of the server's memory by an attack.
const MAX_GROWTH_BYTES: u64 = 64 << 20;
