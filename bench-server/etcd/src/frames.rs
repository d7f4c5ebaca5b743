//! Frames with references to stored records.

use store::{Projection, Record};
use wire::{body, frame};

/// See [`frame::Frame`].
pub type Frame = frame::Frame<RecordPiece>;

/// See [`frame::FrameBuilder`].
pub type FrameBuilder = frame::FrameBuilder<RecordPiece>;

/// See [`body::ResponseBody`].
pub type ResponseBody = body::ResponseBody<RecordPiece>;

/// A piece of a stored record, which is stored in two.
#[derive(Debug, Clone)]
pub enum RecordPiece {
    /// The first piece; most records have only this.
    Head(Record),
    /// The first piece without the key of the field.
    Message(Record),
    /// The second piece.
    Tail(Record),
}

impl AsRef<[u8]> for RecordPiece {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Head(record) => record.wire()[0],
            Self::Message(record) => &record.wire()[0][1..],
            Self::Tail(record) => record.wire()[1],
        }
    }
}

/// Appends records to a frame.
pub(super) trait PutRecord {
    /// Appends a stored record: copied when small, referenced when large.
    fn put_record(&mut self, record: &Record);

    /// Appends a stored record like [`Self::put_record`], as a field with another key of one byte.
    fn put_with_key(&mut self, key: u8, record: &Record);

    /// Appends a projection of a stored record.
    fn put_projected(&mut self, record: &Record, projection: Projection);
}

impl PutRecord for FrameBuilder {
    #[inline]
    fn put_record(&mut self, record: &Record) {
        self.put_pieces(record.wire(), |piece| match piece {
            0 => RecordPiece::Head(record.clone()),
            _ => RecordPiece::Tail(record.clone()),
        });
    }

    fn put_with_key(&mut self, key: u8, record: &Record) {
        let [head, tail] = record.wire();
        self.put(&[key]);
        self.put_pieces([&head[1..], tail], |piece| match piece {
            0 => RecordPiece::Message(record.clone()),
            _ => RecordPiece::Tail(record.clone()),
        });
    }

    // A list calls it for each object; apart, it is 17 more instructions of some 200.
    #[inline(always)]
    fn put_projected(&mut self, record: &Record, projection: Projection) {
        match projection {
            Projection::Everything => self.put_record(record),
            Projection::KeysOnly { .. } => self.put_encoded(|out| projection.put_wire(record, out)),
        }
    }
}
