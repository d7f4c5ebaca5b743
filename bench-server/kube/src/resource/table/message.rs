//! Reads single fields of an encoded object. A malformed field becomes an empty cell instead of an
//! error.

use kube_api::protobuf::{Fields, WireValue};

/// An encoded message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a>(pub(super) &'a [u8]);

impl<'a> Message<'a> {
    /// Returns an iterator over every occurrence of a message, text or map entry.
    pub(super) fn all(self, number: u32) -> impl Iterator<Item = Self> {
        Fields::new(self.0)
            .map_while(Result::ok)
            .filter(move |field| field.number == number)
            .filter_map(|field| field.wire.bytes().map(Self))
    }

    /// Returns the number of occurrences of a message, text or map entry.
    pub(super) fn count(self, number: u32) -> usize {
        self.all(number).count()
    }

    /// Returns a message that may be absent.
    pub(super) fn find(self, number: u32) -> Option<Self> {
        self.all(number).next()
    }

    /// Returns a message; empty if absent.
    pub(super) fn message(self, number: u32) -> Self {
        self.find(number).unwrap_or(Self(&[]))
    }

    /// Returns a text; empty if absent or not UTF-8.
    pub(super) fn text(self, number: u32) -> &'a str {
        let bytes = self.find(number).map_or(&[][..], |text| text.0);
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Returns an integer; 0 if absent.
    pub(super) fn int(self, number: u32) -> i64 {
        let mut fields = Fields::new(self.0).map_while(Result::ok);
        match fields
            .find(|field| field.number == number)
            .map(|field| field.wire)
        {
            Some(WireValue::Varint(value)) => value as i64,
            _ => 0,
        }
    }

    /// Returns a boolean; false if absent.
    pub(super) fn flag(self, number: u32) -> bool {
        self.int(number) != 0
    }

    /// Returns the seconds of a time; `None` if it is absent or zero.
    pub(super) fn seconds(self, number: u32) -> Option<i64> {
        let time = self.find(number)?;
        (!time.0.is_empty()).then(|| time.int(1))
    }

    /// Returns the metadata of an object.
    pub(super) fn metadata(self) -> Self {
        self.message(1)
    }
}
