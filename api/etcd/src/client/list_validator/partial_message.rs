//! Cuts bytes that arrive in frames into units; copies only units that straddle two frames.

/// Bytes that a [`PartialMessage`] may reserve before they have arrived.
const MAX_RESERVE: usize = 4 << 20;

/// The result of reading a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It was whole and this long, bytes.
    Consumed(usize),
    /// It is not whole: it must be read again with at least this many bytes, which is more than
    /// were passed and no more than the unit has.
    NeedMore(usize),
}

/// The start of a unit that a later frame completes.
#[derive(Debug, Default)]
pub struct PartialMessage {
    bytes: Vec<u8>,
    need: usize,
}

impl PartialMessage {
    /// Returns whether the bytes so far end between two units.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Calls `unit` with each unit and its offset in `frame`, or `None` for one that began in an
    /// earlier frame.
    ///
    /// # Errors
    /// The first error of `unit`; nothing may be fed after it.
    pub fn feed<E>(
        &mut self,
        frame: &[u8],
        mut unit: impl FnMut(&[u8], Option<usize>) -> Result<Progress, E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while !self.bytes.is_empty() {
            let take = (self.need - self.bytes.len()).min(frame.len() - at);
            self.bytes.extend_from_slice(&frame[at..at + take]);
            at += take;
            if self.bytes.len() < self.need {
                return Ok(());
            }
            match unit(&self.bytes, None)? {
                Progress::Consumed(_) => self.bytes.clear(),
                Progress::NeedMore(len) => self.wait_for(len),
            }
        }
        while at < frame.len() {
            match unit(&frame[at..], Some(at))? {
                Progress::Consumed(len) => at += len,
                Progress::NeedMore(len) => {
                    self.bytes.extend_from_slice(&frame[at..]);
                    self.wait_for(len);
                    break;
                }
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, len: usize) {
        self.need = len;
        // A forged length must not cost memory.
        let ahead = len.min(MAX_RESERVE).saturating_sub(self.bytes.len());
        self.bytes.reserve(ahead);
    }
}
