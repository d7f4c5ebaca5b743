//! Splits bytes that arrive in frames into units, and copies only units that straddle two frames.

/// Maximum number of bytes that a [`PartialMessage`] reserves before they have arrived.
const MAX_RESERVE: usize = 4 << 20;

/// The result of reading a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The unit was complete and had this many bytes.
    Consumed(usize),
    /// The unit is incomplete and must be read again with at least this many bytes. The number is
    /// greater than that of the bytes passed and no greater than the length of the unit.
    NeedMore(usize),
}

/// The start of a unit that a later frame completes.
#[derive(Debug, Default)]
pub struct PartialMessage {
    bytes: Vec<u8>,
    need: usize,
}

impl PartialMessage {
    /// Returns whether the bytes so far end at the end of a unit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Calls `unit` with each unit and its offset in `frame`; the offset of a unit that began in an
    /// earlier frame is `None`.
    ///
    /// # Errors
    /// The first error of `unit`. After an error, no more frames may be fed.
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
        // A forged length must not allocate unlimited memory.
        let ahead = len.min(MAX_RESERVE).saturating_sub(self.bytes.len());
        self.bytes.reserve(ahead);
    }
}
