//! Frames that point at stored records.

use store::{Record, Shown};
use wire::{body, frame};

/// See [`frame::Frame`].
pub type Frame = frame::Frame<RecordPiece>;

/// See [`frame::FrameBuilder`].
pub type FrameBuilder = frame::FrameBuilder<RecordPiece>;

/// See [`body::ResponseBody`].
pub type ResponseBody = body::ResponseBody<RecordPiece>;

/// One of the two pieces that a record is stored in.
#[derive(Debug, Clone)]
pub enum RecordPiece {
    /// The first, which most records have alone.
    Head(Record),
    /// The second.
    Tail(Record),
}

impl AsRef<[u8]> for RecordPiece {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Head(record) => record.wire()[0],
            Self::Tail(record) => record.wire()[1],
        }
    }
}

/// What frames are built of here.
pub(super) trait PutRecord {
    /// Appends a stored record: copied when small, pointed at when large.
    fn put_record(&mut self, record: &Record);

    /// Appends what is to be shown of a stored record.
    fn put_shown(&mut self, record: &Record, shown: Shown);
}

impl PutRecord for FrameBuilder {
    #[inline]
    fn put_record(&mut self, record: &Record) {
        self.put_pieces(record.wire(), |piece| match piece {
            0 => RecordPiece::Head(record.clone()),
            _ => RecordPiece::Tail(record.clone()),
        });
    }

    #[inline]
    fn put_shown(&mut self, record: &Record, shown: Shown) {
        match shown {
            Shown::Everything => self.put_record(record),
            Shown::KeysOnly { .. } => self.put_encoded(|out| shown.put_wire(record, out)),
        }
    }
}
