//! Data that lies in many places, and is written at once all the same.
//!
//! h2 hands a DATA frame to the socket through [`bytes::buf::Take`], which shows 16 slices at a time. A frame of
//! 256 KiB that points at 26 records has 52, which is four system calls, and those take 1.36 times as long as one
//! (`docs/performance.md`, "One write for a frame"). So data leaves here what it had no room to show, and the socket
//! writes that, too, as far as it belongs to the same DATA frame ([`super::data_frames`]).

use std::cell::Cell;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Slices by their number.
pub trait Slices {
    /// The slice of that number; `None` behind the last.
    fn slice(&self, number: usize) -> Option<&[u8]>;
}

thread_local! {
    static LATEST: Cell<Option<NotShown>> = const { Cell::new(None) };
}

/// The slices that a vectored read had no room to show.
pub struct NotShown {
    /// Where the last slice lies that was shown. Compared, never followed.
    shown_last: Range<*const u8>,
    slices: Arc<dyn Slices>,
    next: usize,
    bytes: usize,
}

impl NotShown {
    /// `bytes` bytes of `slices` from number `next` on, behind `shown_last`, which was shown.
    pub fn behind(shown_last: &[u8], slices: Arc<dyn Slices>, next: usize, bytes: usize) -> Self {
        Self {
            shown_last: shown_last.as_ptr_range(),
            slices,
            next,
            bytes,
        }
    }

    /// Leaves them for the write that follows on this thread.
    pub fn remember(self) {
        LATEST.set(Some(self));
    }

    /// Forgets what an earlier read has left, since this one has shown all.
    pub fn forget() {
        LATEST.set(None);
    }

    /// Takes what was left by a read that ended with the last of `bufs`. Whatever else was left is dropped.
    pub(super) fn take_behind(bufs: &[IoSlice<'_>]) -> Option<Self> {
        let latest = LATEST.take()?;
        let last = bufs.last()?;
        (last.as_ptr_range() == latest.shown_last).then_some(latest)
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The slices of the first `most` bytes, in order.
    pub(super) fn slices(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        let mut left = self.bytes.min(most);
        (self.next..).map_while(move |number| {
            let slice = self.slices.slice(number).filter(|_| left > 0)?;
            let slice = &slice[..slice.len().min(left)];
            left -= slice.len();
            Some(slice)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Three;

    impl Slices for Three {
        fn slice(&self, number: usize) -> Option<&[u8]> {
            ["zero", "one", "two"]
                .get(number)
                .map(|text| text.as_bytes())
        }
    }

    #[test]
    fn what_was_not_shown_belongs_to_the_write_that_ends_with_what_was() {
        let (shown, other) = (*b"zero", *b"zero");
        let leave = || NotShown::behind(&shown, Arc::new(Three), 1, 6).remember();
        let take =
            |last: &[u8]| NotShown::take_behind(&[IoSlice::new(b"head"), IoSlice::new(last)]);
        leave();
        let rest = take(&shown).expect("it was left");
        let texts = |most| rest.slices(most).collect::<Vec<_>>().concat();
        assert_eq!(texts(usize::MAX), b"onetwo");
        assert_eq!(texts(4), b"onet");
        assert_eq!(texts(0), b"");
        assert!(take(&shown).is_none(), "it is taken once");
        leave();
        assert!(take(&other).is_none(), "the same bytes elsewhere");
        assert!(take(&shown).is_none(), "it is gone with the first write");
        leave();
        assert!(take(&shown[..3]).is_none(), "a slice that was cut");
        leave();
        assert!(NotShown::take_behind(&[]).is_none());
        leave();
        NotShown::forget();
        assert!(take(&shown).is_none(), "a later read showed all");
    }
}
