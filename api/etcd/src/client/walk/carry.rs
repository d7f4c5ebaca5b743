//! Cuts bytes that arrive in frames into units, copying only units that straddle two frames.

/// What a [`Carry`] may reserve ahead of bytes that really arrived.
const MAX_RESERVE: usize = 4 << 20;

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// It was whole, and this long.
    Taken(usize),
    /// It is not whole: it must be looked at again with at least this many bytes, which is more than were shown and no
    /// more than it has.
    Need(usize),
}

/// The start of a unit whose rest is in a later frame.
#[derive(Debug, Default)]
pub struct Carry {
    bytes: Vec<u8>,
    need: usize,
}

impl Carry {
    /// True between units.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Shows each unit of the bytes so far to `unit`, with its offset in `frame`, or `None` when it was carried over from
    /// an earlier one.
    ///
    /// # Errors
    /// The first error of `unit`; nothing may be fed after it.
    pub fn feed<E>(
        &mut self,
        frame: &[u8],
        mut unit: impl FnMut(&[u8], Option<usize>) -> Result<Unit, E>,
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
                Unit::Taken(_) => self.bytes.clear(),
                Unit::Need(len) => self.wait_for(len),
            }
        }
        while at < frame.len() {
            match unit(&frame[at..], Some(at))? {
                Unit::Taken(len) => at += len,
                Unit::Need(len) => {
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
        // A length that only claims to be large must not cost memory.
        let ahead = len.min(MAX_RESERVE).saturating_sub(self.bytes.len());
        self.bytes.reserve(ahead);
    }
}
