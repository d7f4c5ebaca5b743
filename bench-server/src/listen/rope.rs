//! Data that lies in many places, and is written in one piece all the same.
//!
//! h2 hands a DATA frame to the socket through [`bytes::buf::Take`], which shows 16 slices at a time. A frame of
//! 256 KiB that points at 26 records has 52, so it took four system calls, and a list 1.36 times as long as with one
//! (`docs/performance.md`, "One write for a frame"). So data remembers what it had no room to show, and the socket
//! writes that, too, as far as it belongs to the same DATA frame ([`super::data_frames`]).

use bytes::{Buf, Bytes};

/// The data of response bodies.
pub trait Rope: Buf {
    /// What was not shown.
    type Rest: Rest;

    /// Takes what this thread's latest call of `chunks_vectored` had no room to show.
    fn take_rest() -> Option<Self::Rest>;
}

/// The slices behind those that a vectored read has shown.
pub trait Rest {
    /// Whether `last` is the last slice that was shown before these.
    fn is_behind(&self, last: &[u8]) -> bool;

    /// The slices, in order.
    fn slices(&self) -> impl Iterator<Item = &[u8]>;
}

impl Rope for Bytes {
    type Rest = Nothing;

    fn take_rest() -> Option<Nothing> {
        None
    }
}

/// The rest of data in one piece: there is none.
#[derive(Debug)]
pub enum Nothing {}

impl Rest for Nothing {
    fn is_behind(&self, _: &[u8]) -> bool {
        match *self {}
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::empty()
    }
}
