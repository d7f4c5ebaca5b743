//! Checks a list response while it comes in, without building a struct per object.
//!
//! The bytes are gRPC messages (five-byte prefix) of `RangeResponse` (unary) or of
//! `RangeStreamResponse` (field 1 holds a `RangeResponse`). A [`Walker`] is fed DATA frames in any
//! chunking; it looks at one *unit* at a time: a message prefix, a wrapper's tag and length, or one
//! field of a `RangeResponse`. A unit that lies whole in the frame is used in place; only one that
//! straddles two frames is copied, into a carry buffer that holds no more than that unit. Cost: a
//! handful of varints per object and a copy of each key (for the order check); values are not read.

mod carry;
pub(super) mod fields;
#[cfg(test)]
mod tests;

use crate::error::Error;
pub use carry::{Carry, Unit};
pub(crate) use fields::objects;
pub use fields::{Header, Object};
use fields::{Scan, parse_header, parse_object, scan_field};

const LENGTH_DELIMITED: u64 = 2;
const PREFIX_LEN: usize = 5;

/// Which RPC the bytes answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRpc {
    /// Unary Range: exactly one message.
    Range,
    /// RangeStream: one or more messages, the last with a header.
    RangeStream,
}

/// Receives the objects of a list, in order.
pub trait Visitor {
    /// One object. `record` is its whole field in `RangeResponse` (tag, length, `KeyValue`);
    /// `offset` is where that starts in the frame being fed, or `None` when it straddled frames
    /// and lies in the carry buffer.
    fn on_object(&mut self, object: Object<'_>, record: &[u8], offset: Option<usize>);
}

impl<F: FnMut(Object<'_>)> Visitor for F {
    fn on_object(&mut self, object: Object<'_>, _record: &[u8], _offset: Option<usize>) {
        self(object);
    }
}

/// How a list response breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalkError {
    /// The message is compressed, which was not offered.
    #[error("message {message} has compression flag {flag}")]
    Compressed {
        /// Which message, from 1.
        message: u64,
        /// The flag byte.
        flag: u8,
    },
    /// A varint of more than ten bytes.
    #[error("varint longer than 10 bytes after {at} bytes")]
    Varint {
        /// Bytes taken before it.
        at: u64,
    },
    /// A field with a wire type that protobuf 3 does not have, or not for that field.
    #[error("field {field} has wire type {wire_type} after {at} bytes")]
    WireType {
        /// Field number.
        field: u64,
        /// Wire type.
        wire_type: u64,
        /// Bytes taken before it.
        at: u64,
    },
    /// A field reaches past the message that holds it.
    #[error("field of {len} bytes where {left} are left, after {at} bytes")]
    Overrun {
        /// Length of the field with its head.
        len: u64,
        /// What the enclosing message has left.
        left: u64,
        /// Bytes taken before it.
        at: u64,
    },
    /// A `KeyValue` that does not parse, or has no key.
    #[error("object {index} is malformed")]
    Object {
        /// Which object, from 0.
        index: u64,
    },
    /// Keys do not rise.
    #[error("object {index} is out of order: {} after {}", .key.escape_ascii(), .previous.escape_ascii())]
    Order {
        /// Which object, from 0.
        index: u64,
        /// Its key.
        key: Vec<u8>,
        /// The key before.
        previous: Vec<u8>,
    },
    /// A second message where the call is unary.
    #[error("more than one message in a unary answer")]
    SecondMessage,
    /// The body ended inside a message.
    #[error("cut short inside message {message}, after {at} bytes")]
    Truncated {
        /// Which message, from 1.
        message: u64,
        /// Bytes taken.
        at: u64,
    },
    /// The call ended OK without a response header.
    #[error("ended without a response header ({messages} messages, {objects} objects)")]
    NoHeader {
        /// Messages received.
        messages: u64,
        /// Objects received.
        objects: u64,
    },
}

impl From<WalkError> for Error {
    fn from(error: WalkError) -> Self {
        Error::Protocol(error.to_string())
    }
}

/// What a complete list response said and held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListSummary {
    /// Header revision: the store's when it was read.
    pub revision: i64,
    /// Who sent it, as the last header says; its revision is above.
    pub header: Header,
    /// Which message the last header came in, from 1.
    pub header_message: u64,
    /// Objects, headers and messages with a field that etcd 3.7 does not know, that is there twice, or (of objects and headers)
    /// that stands in another order than encoders write them.
    /// A client of a newer server passes over them; a measurement should know of them.
    pub irregular: u64,
    /// `count` of the last message that had one.
    pub count: i64,
    /// Whether a limit cut the list.
    pub more: bool,
    /// Objects received.
    pub objects: u64,
    /// gRPC messages (chunks) received.
    pub messages: u64,
    /// Bytes received, framing included.
    pub bytes: u64,
    /// Messages without objects that were followed by another message. kube-apiserver fails on
    /// these (etcd never sends them), although merging them would be correct.
    pub empty_chunks: u64,
}

/// Where in the nesting the next unit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Before a gRPC message.
    Prefix,
    /// Inside `RangeStreamResponse`.
    Wrapper,
    /// Inside `RangeResponse`.
    Response,
}

/// The incremental checker. Feed it every DATA frame, then [`finish`](Walker::finish).
#[derive(Debug)]
pub struct Walker {
    rpc: ListRpc,
    level: Level,
    /// Bytes of the gRPC message not yet taken.
    message_left: u64,
    /// Bytes of the `RangeResponse` not yet taken; part of `message_left`.
    response_left: u64,
    carry: Carry,
    last_key: Vec<u8>,
    objects_before_message: u64,
    seen_header: bool,
    /// The fields that the response being read has had, a bit for each.
    seen_fields: u8,
    /// Whether the message being read has had its response.
    has_response: bool,
    summary: ListSummary,
}

impl Walker {
    /// A walker for one response.
    pub fn new(rpc: ListRpc) -> Self {
        Self {
            rpc,
            level: Level::Prefix,
            message_left: 0,
            response_left: 0,
            carry: Carry::default(),
            last_key: Vec::new(),
            objects_before_message: 0,
            seen_header: false,
            seen_fields: 0,
            has_response: false,
            summary: ListSummary::default(),
        }
    }

    /// What was seen so far.
    pub fn so_far(&self) -> &ListSummary {
        &self.summary
    }

    /// Takes the next bytes of the body, calling `visitor` for each object that they complete.
    ///
    /// # Errors
    /// [`WalkError`] on the first violation; the walker must not be fed further.
    pub fn feed(&mut self, frame: &[u8], visitor: &mut impl Visitor) -> Result<(), WalkError> {
        // Taken out while it is fed, because looking at a unit changes the rest of the walker.
        let mut carry = std::mem::take(&mut self.carry);
        carry.feed(frame, |input, offset| self.unit(input, offset, visitor))?;
        self.carry = carry;
        self.summary.bytes += frame.len() as u64;
        Ok(())
    }

    /// Ends the walk when the call ended OK.
    ///
    /// # Errors
    /// [`WalkError::Truncated`] inside a message, [`WalkError::NoHeader`] when no header came.
    pub fn finish(&self) -> Result<ListSummary, WalkError> {
        if self.level != Level::Prefix || !self.carry.is_empty() {
            return Err(WalkError::Truncated {
                message: self.summary.messages,
                at: self.summary.bytes,
            });
        }
        if !self.seen_header {
            return Err(WalkError::NoHeader {
                messages: self.summary.messages,
                objects: self.summary.objects,
            });
        }
        Ok(self.summary)
    }

    /// Looks at the unit at the start of `input`.
    fn unit(
        &mut self,
        input: &[u8],
        offset: Option<usize>,
        visitor: &mut impl Visitor,
    ) -> Result<Unit, WalkError> {
        match self.level {
            Level::Prefix => self.prefix(input),
            Level::Wrapper => self.wrapper(input),
            Level::Response => self.response_field(input, offset, visitor),
        }
    }

    fn prefix(&mut self, input: &[u8]) -> Result<Unit, WalkError> {
        let Some(&[flag, a, b, c, d]) = input.first_chunk::<PREFIX_LEN>() else {
            return Ok(Unit::Need(PREFIX_LEN));
        };
        let message = self.summary.messages + 1;
        if flag != 0 {
            return Err(WalkError::Compressed { message, flag });
        }
        if self.rpc == ListRpc::Range && message > 1 {
            return Err(WalkError::SecondMessage);
        }
        if message > 1 && self.summary.objects == self.objects_before_message {
            self.summary.empty_chunks += 1;
        }
        self.objects_before_message = self.summary.objects;
        self.summary.messages = message;
        self.seen_fields = 0;
        self.has_response = false;
        self.message_left = u64::from(u32::from_be_bytes([a, b, c, d]));
        self.level = match self.rpc {
            ListRpc::Range => {
                self.response_left = self.message_left;
                Level::Response
            }
            ListRpc::RangeStream => Level::Wrapper,
        };
        self.close_levels();
        Ok(Unit::Taken(PREFIX_LEN))
    }

    fn wrapper(&mut self, input: &[u8]) -> Result<Unit, WalkError> {
        let scan = match self.scan(input, self.message_left)? {
            Ok(scan) => scan,
            Err(need) => return Ok(Unit::Need(need)),
        };
        if scan.field == 1 {
            self.require_wire_type(&scan, LENGTH_DELIMITED)?;
            self.message_left -= scan.head as u64;
            self.response_left = scan.payload;
            self.seen_fields = 0;
            self.summary.irregular += u64::from(self.has_response);
            self.has_response = true;
            self.level = Level::Response;
            self.close_levels();
            return Ok(Unit::Taken(scan.head));
        }
        let len = scan.total();
        if input.len() < len {
            return Ok(Unit::Need(len));
        }
        self.message_left -= len as u64;
        self.summary.irregular += 1;
        self.close_levels();
        Ok(Unit::Taken(len))
    }

    fn response_field(
        &mut self,
        input: &[u8],
        offset: Option<usize>,
        visitor: &mut impl Visitor,
    ) -> Result<Unit, WalkError> {
        let scan = match self.scan(input, self.response_left)? {
            Ok(scan) => scan,
            Err(need) => return Ok(Unit::Need(need)),
        };
        let len = scan.total();
        let Some(unit) = input.get(..len) else {
            return Ok(Unit::Need(len));
        };
        match scan.field {
            2 => {
                self.require_wire_type(&scan, LENGTH_DELIMITED)?;
                self.object(unit, scan.head, offset, visitor)?;
            }
            1 => {
                self.require_wire_type(&scan, LENGTH_DELIMITED)?;
                let header = parse_header(&unit[scan.head..]);
                let (header, is_irregular) = header.ok_or(WalkError::WireType {
                    field: 1,
                    wire_type: scan.wire_type,
                    at: self.summary.bytes,
                })?;
                // Merging: a later header's non-zero revision wins.
                if header.revision != 0 {
                    self.summary.revision = header.revision;
                }
                self.summary.header = header;
                self.summary.header_message = self.summary.messages;
                self.summary.irregular += u64::from(is_irregular);
                self.seen_header = true;
            }
            3 => {
                self.require_wire_type(&scan, 0)?;
                self.summary.more = scan.value != 0;
            }
            4 => {
                self.require_wire_type(&scan, 0)?;
                self.summary.count = scan.value.cast_signed();
            }
            _ => self.summary.irregular += 1,
        }
        // Only objects are many; the other fields of a response are there once.
        if let 1 | 3 | 4 = scan.field {
            let field = 1 << scan.field;
            self.summary.irregular += u64::from(self.seen_fields & field != 0);
            self.seen_fields |= field;
        }
        self.response_left -= len as u64;
        self.message_left -= len as u64;
        self.close_levels();
        Ok(Unit::Taken(len))
    }

    fn object(
        &mut self,
        record: &[u8],
        head: usize,
        offset: Option<usize>,
        visitor: &mut impl Visitor,
    ) -> Result<(), WalkError> {
        let index = self.summary.objects;
        let object = parse_object(&record[head..]).ok_or(WalkError::Object { index })?;
        // An empty last_key is below every key, and a key is never empty.
        if object.key <= self.last_key.as_slice() {
            return Err(WalkError::Order {
                index,
                key: object.key.to_vec(),
                previous: self.last_key.clone(),
            });
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(object.key);
        self.summary.objects += 1;
        self.summary.irregular += u64::from(object.is_irregular);
        visitor.on_object(object, record, offset);
        Ok(())
    }

    /// Scans a field's head and checks that the whole field fits into `left`.
    fn scan(&self, input: &[u8], left: u64) -> Result<Result<Scan, usize>, WalkError> {
        let at = self.summary.bytes;
        let scan = match scan_field(input) {
            Ok(Some(scan)) => scan,
            Ok(None) => {
                let need = input.len() + 1;
                let overrun = WalkError::Overrun {
                    len: need as u64,
                    left,
                    at,
                };
                return if need as u64 > left {
                    Err(overrun)
                } else {
                    Ok(Err(need))
                };
            }
            Err(fields::BadField::Varint) => return Err(WalkError::Varint { at }),
            Err(fields::BadField::WireType { field, wire_type }) => {
                return Err(WalkError::WireType {
                    field,
                    wire_type,
                    at,
                });
            }
        };
        let len = (scan.head as u64).saturating_add(scan.payload);
        if len > left {
            return Err(WalkError::Overrun { len, left, at });
        }
        Ok(Ok(scan))
    }

    fn require_wire_type(&self, scan: &Scan, wanted: u64) -> Result<(), WalkError> {
        if scan.wire_type == wanted {
            return Ok(());
        }
        Err(WalkError::WireType {
            field: scan.field,
            wire_type: scan.wire_type,
            at: self.summary.bytes,
        })
    }

    /// Leaves messages that have no bytes left.
    fn close_levels(&mut self) {
        if self.level == Level::Response && self.response_left == 0 {
            self.level = match self.rpc {
                ListRpc::Range => Level::Prefix,
                ListRpc::RangeStream => Level::Wrapper,
            };
        }
        if self.level == Level::Wrapper && self.message_left == 0 {
            self.level = Level::Prefix;
        }
    }
}
