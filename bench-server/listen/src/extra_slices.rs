//! Writes a DATA frame of many slices in one system call.
//!
//! h2 passes a DATA frame to the socket through [`bytes::buf::Take`], which exposes 16 slices at a
//! time. A frame of 256 KiB with references to 26 records has 52 slices. This is four system calls,
//! which take 1.36 times as long as one (`docs/performance.md`, "One write for a frame"). A frame
//! therefore publishes the slices that it could not expose, and the socket writes those that belong
//! to the same DATA frame ([`super::frame_position`]), too.

use std::cell::Cell;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Slices by number.
pub trait Slices {
    /// Returns the slice of this number; `None` after the last.
    fn slice(&self, number: usize) -> Option<&[u8]>;
}

thread_local! {
    static PENDING_SLICES: Cell<Option<ExtraSlices>> = const { Cell::new(None) };
}

/// The slices that a call of `chunks_vectored` could not expose.
pub struct ExtraSlices {
    /// Address range of the last exposed slice. It is compared but never dereferenced.
    last_slice: Range<*const u8>,
    slices: Arc<dyn Slices>,
    next: usize,
    bytes: usize,
}

impl ExtraSlices {
    /// Returns the `bytes` bytes of `slices` from number `next` on, after the exposed slice
    /// `last_slice`.
    pub fn after(last_slice: &[u8], slices: Arc<dyn Slices>, next: usize, bytes: usize) -> Self {
        Self {
            last_slice: last_slice.as_ptr_range(),
            slices,
            next,
            bytes,
        }
    }

    /// Publishes them for the next write on this thread.
    pub fn publish(self) {
        PENDING_SLICES.set(Some(self));
    }

    /// Removes published slices, because all slices were exposed.
    pub fn clear() {
        PENDING_SLICES.set(None);
    }

    /// Takes the published slices if they follow the last of `bufs`; otherwise drops them.
    pub(super) fn take_after(bufs: &[IoSlice<'_>]) -> Option<Self> {
        let latest = PENDING_SLICES.take()?;
        let last = bufs.last()?;
        (last.as_ptr_range() == latest.last_slice).then_some(latest)
    }

    /// Returns the total size of the slices, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the slices of the first `most` bytes, in order.
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
    fn extra_slices_belong_to_the_write_that_ends_with_the_exposed_ones() {
        let (shown, other) = (*b"zero", *b"zero");
        let publish = || ExtraSlices::after(&shown, Arc::new(Three), 1, 6).publish();
        let take =
            |last: &[u8]| ExtraSlices::take_after(&[IoSlice::new(b"head"), IoSlice::new(last)]);
        publish();
        let rest = take(&shown).expect("they were published");
        let texts = |most| rest.slices(most).collect::<Vec<_>>().concat();
        assert_eq!(texts(usize::MAX), b"onetwo");
        assert_eq!(texts(4), b"onet");
        assert_eq!(texts(0), b"");
        assert!(take(&shown).is_none(), "they are taken once");
        publish();
        assert!(take(&other).is_none(), "the same bytes elsewhere");
        assert!(take(&shown).is_none(), "the first write discards them");
        publish();
        assert!(take(&shown[..3]).is_none(), "a slice that was cut");
        publish();
        assert!(ExtraSlices::take_after(&[]).is_none());
        publish();
        ExtraSlices::clear();
        assert!(take(&shown).is_none(), "a later read exposed all slices");
    }
}
