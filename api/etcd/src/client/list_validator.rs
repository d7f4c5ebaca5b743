//! Validates a list response while it arrives, without building a struct per object.
//!
//! The bytes are gRPC messages (with a five-byte prefix) of `RangeResponse` (unary) or of
//! `RangeStreamResponse` (field 1 holds a `RangeResponse`). A [`ListValidator`] receives DATA
//! frames, in chunks of any size. It reads one *unit* at a time: a message prefix, the tag and
//! length of a wrapper, or one field of a `RangeResponse`. A unit that lies whole in the frame is
//! read in place. Only a unit that straddles two frames is copied, into a [`PartialMessage`] that
//! holds no more than that unit. Costs a handful of varints per object and a copy of each key (for
//! the order check); values are not read.

pub(super) mod fields;
mod partial_message;
#[cfg(test)]
mod tests;

use crate::error::Error;
pub(crate) use fields::objects;
use fields::{FieldHead, parse_header, parse_object, read_field_head};
pub use fields::{Header, Object};
pub use partial_message::{PartialMessage, Progress};

const LENGTH_DELIMITED: u64 = 2;
const PREFIX_LEN: usize = 5;

/// The RPC of a list response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRpc {
    /// Unary Range: exactly one message.
    Range,
    /// RangeStream: one or more messages, the last with a header.
    RangeStream,
}

/// Receives the objects of a list, in order.
pub trait Visitor {
    /// Called for each object. `record` is its whole field in `RangeResponse` (tag, length,
    /// `KeyValue`). `offset` is the start of the record in the frame being fed, or `None` if the
    /// record straddles frames.
    fn on_object(&mut self, object: Object<'_>, record: &[u8], offset: Option<usize>);
}

impl<F: FnMut(Object<'_>)> Visitor for F {
    fn on_object(&mut self, object: Object<'_>, _record: &[u8], _offset: Option<usize>) {
        self(object);
    }
}

/// A violation of the protocol by a list response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// The message is compressed, although the client did not offer compression.
    #[error("message {message} has compression flag {flag}")]
    Compressed {
        /// Number of the message, from 1.
        message: u64,
        /// The flag byte.
        flag: u8,
    },
    /// A varint of more than ten bytes.
    #[error("varint longer than 10 bytes after {at} bytes")]
    Varint {
        /// Bytes consumed before it.
        at: u64,
    },
    /// A field with a wire type that does not exist in protobuf 3, or that does not fit the field.
    #[error("field {field} has wire type {wire_type} after {at} bytes")]
    WireType {
        /// Field number.
        field: u64,
        /// Wire type.
        wire_type: u64,
        /// Bytes consumed before it.
        at: u64,
    },
    /// A field extends beyond the message that contains it.
    #[error("field of {len} bytes where {left} are left, after {at} bytes")]
    Overrun {
        /// Length of the field, with tag and length prefix.
        len: u64,
        /// Bytes that are left in the enclosing message.
        left: u64,
        /// Bytes consumed before it.
        at: u64,
    },
    /// A `KeyValue` that cannot be parsed, or has no key.
    #[error("object {index} is malformed")]
    Object {
        /// Index of the object, from 0.
        index: u64,
    },
    /// Keys are not in ascending order.
    #[error("object {index} is out of order: {} after {}", .key.escape_ascii(), .previous.escape_ascii())]
    Order {
        /// Index of the object, from 0.
        index: u64,
        /// The object's key.
        key: Vec<u8>,
        /// The preceding key.
        previous: Vec<u8>,
    },
    /// A second message in a unary response.
    #[error("more than one message in a unary response")]
    SecondMessage,
    /// The body ended inside a message.
    #[error("cut short inside message {message}, after {at} bytes")]
    Truncated {
        /// Number of the message, from 1.
        message: u64,
        /// Bytes consumed.
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

impl From<ValidationError> for Error {
    fn from(error: ValidationError) -> Self {
        Error::Protocol(error.to_string())
    }
}

/// The metadata and totals of a complete list response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListSummary {
    /// Revision of the response header: the store's revision when the list was read.
    pub revision: i64,
    /// The last header. Its revision may be 0; the field `revision` has the last non-zero one.
    pub header: Header,
    /// Number of the message that contained the last header, from 1.
    pub header_message: u64,
    /// Number of irregular objects, headers and messages. Irregular are those with a field that
    /// etcd 3.7 does not have or that occurs twice, and objects and headers whose fields are not in
    /// ascending order. Clients accept all of these; a measurement should report them.
    pub irregular: u64,
    /// `count` of the last message that contained one.
    pub count: i64,
    /// Whether a limit truncated the list.
    pub more: bool,
    /// Objects received.
    pub objects: u64,
    /// gRPC messages (chunks) received.
    pub messages: u64,
    /// Bytes received, including gRPC prefixes.
    pub bytes: u64,
    /// Messages without objects that were followed by another message. kube-apiserver fails on
    /// these, although merging them would be correct. etcd never sends them.
    pub empty_chunks: u64,
}

/// The level of nesting of the next unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Before a gRPC message.
    Prefix,
    /// Inside `RangeStreamResponse`.
    Wrapper,
    /// Inside `RangeResponse`.
    Response,
}

/// Validates one list response. Pass every DATA frame to [`feed`](ListValidator::feed), then call
/// [`finish`](ListValidator::finish).
#[derive(Debug)]
pub struct ListValidator {
    rpc: ListRpc,
    level: Level,
    /// Bytes of the gRPC message not yet consumed.
    message_left: u64,
    /// Bytes of the `RangeResponse` not yet consumed; they are included in `message_left`.
    response_left: u64,
    partial: PartialMessage,
    last_key: Vec<u8>,
    objects_before_message: u64,
    seen_header: bool,
    /// The fields of the current response that have occurred, a bit for each number.
    seen_fields: u8,
    /// Whether the current message has already contained a `RangeResponse`.
    has_response: bool,
    summary: ListSummary,
}

impl ListValidator {
    /// Returns a validator of one response.
    pub fn new(rpc: ListRpc) -> Self {
        Self {
            rpc,
            level: Level::Prefix,
            message_left: 0,
            response_left: 0,
            partial: PartialMessage::default(),
            last_key: Vec::new(),
            objects_before_message: 0,
            seen_header: false,
            seen_fields: 0,
            has_response: false,
            summary: ListSummary::default(),
        }
    }

    /// Returns the totals so far.
    pub fn so_far(&self) -> &ListSummary {
        &self.summary
    }

    /// Validates the next bytes of the body, and calls `visitor` for each object that they
    /// complete.
    ///
    /// # Errors
    /// [`ValidationError`] on the first violation; the validator must not be fed further.
    pub fn feed(
        &mut self,
        frame: &[u8],
        visitor: &mut impl Visitor,
    ) -> Result<(), ValidationError> {
        // Taken out of `self`, because reading a unit borrows the rest of the validator.
        let mut partial = std::mem::take(&mut self.partial);
        partial.feed(frame, |input, offset| self.unit(input, offset, visitor))?;
        self.partial = partial;
        self.summary.bytes += frame.len() as u64;
        Ok(())
    }

    /// Returns the totals of a call that ended with status OK.
    ///
    /// # Errors
    /// [`ValidationError::Truncated`] inside a message, [`ValidationError::NoHeader`] when no
    /// header was received.
    pub fn finish(&self) -> Result<ListSummary, ValidationError> {
        if self.level != Level::Prefix || !self.partial.is_empty() {
            return Err(ValidationError::Truncated {
                message: self.summary.messages,
                at: self.summary.bytes,
            });
        }
        if !self.seen_header {
            return Err(ValidationError::NoHeader {
                messages: self.summary.messages,
                objects: self.summary.objects,
            });
        }
        Ok(self.summary)
    }

    /// Reads the unit at the start of `input`.
    fn unit(
        &mut self,
        input: &[u8],
        offset: Option<usize>,
        visitor: &mut impl Visitor,
    ) -> Result<Progress, ValidationError> {
        match self.level {
            Level::Prefix => self.prefix(input),
            Level::Wrapper => self.wrapper(input),
            Level::Response => self.response_field(input, offset, visitor),
        }
    }

    fn prefix(&mut self, input: &[u8]) -> Result<Progress, ValidationError> {
        let Some(&[flag, a, b, c, d]) = input.first_chunk::<PREFIX_LEN>() else {
            return Ok(Progress::NeedMore(PREFIX_LEN));
        };
        let message = self.summary.messages + 1;
        if flag != 0 {
            return Err(ValidationError::Compressed { message, flag });
        }
        if self.rpc == ListRpc::Range && message > 1 {
            return Err(ValidationError::SecondMessage);
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
        Ok(Progress::Consumed(PREFIX_LEN))
    }

    fn wrapper(&mut self, input: &[u8]) -> Result<Progress, ValidationError> {
        let head = match self.read_head(input, self.message_left)? {
            Ok(head) => head,
            Err(need) => return Ok(Progress::NeedMore(need)),
        };
        if head.field == 1 {
            self.require_wire_type(&head, LENGTH_DELIMITED)?;
            self.message_left -= head.len as u64;
            self.response_left = head.payload_len;
            self.seen_fields = 0;
            self.summary.irregular += u64::from(self.has_response);
            self.has_response = true;
            self.level = Level::Response;
            self.close_levels();
            return Ok(Progress::Consumed(head.len));
        }
        let len = head.total();
        if input.len() < len {
            return Ok(Progress::NeedMore(len));
        }
        self.message_left -= len as u64;
        self.summary.irregular += 1;
        self.close_levels();
        Ok(Progress::Consumed(len))
    }

    fn response_field(
        &mut self,
        input: &[u8],
        offset: Option<usize>,
        visitor: &mut impl Visitor,
    ) -> Result<Progress, ValidationError> {
        let head = match self.read_head(input, self.response_left)? {
            Ok(head) => head,
            Err(need) => return Ok(Progress::NeedMore(need)),
        };
        let len = head.total();
        let Some(unit) = input.get(..len) else {
            return Ok(Progress::NeedMore(len));
        };
        match head.field {
            2 => {
                self.require_wire_type(&head, LENGTH_DELIMITED)?;
                self.object(unit, head.len, offset, visitor)?;
            }
            1 => {
                self.require_wire_type(&head, LENGTH_DELIMITED)?;
                let header = parse_header(&unit[head.len..]);
                let (header, is_irregular) = header.ok_or(ValidationError::WireType {
                    field: 1,
                    wire_type: head.wire_type,
                    at: self.summary.bytes,
                })?;
                // The non-zero revision of a later header replaces that of an earlier one.
                if header.revision != 0 {
                    self.summary.revision = header.revision;
                }
                self.summary.header = header;
                self.summary.header_message = self.summary.messages;
                self.summary.irregular += u64::from(is_irregular);
                self.seen_header = true;
            }
            3 => {
                self.require_wire_type(&head, 0)?;
                self.summary.more = head.value != 0;
            }
            4 => {
                self.require_wire_type(&head, 0)?;
                self.summary.count = head.value.cast_signed();
            }
            _ => self.summary.irregular += 1,
        }
        // Only objects may repeat; each other field of a response occurs at most once.
        if let 1 | 3 | 4 = head.field {
            let field = 1 << head.field;
            self.summary.irregular += u64::from(self.seen_fields & field != 0);
            self.seen_fields |= field;
        }
        self.response_left -= len as u64;
        self.message_left -= len as u64;
        self.close_levels();
        Ok(Progress::Consumed(len))
    }

    fn object(
        &mut self,
        record: &[u8],
        head: usize,
        offset: Option<usize>,
        visitor: &mut impl Visitor,
    ) -> Result<(), ValidationError> {
        let index = self.summary.objects;
        let object = parse_object(&record[head..]).ok_or(ValidationError::Object { index })?;
        // An empty `last_key` sorts before every key, because a key is never empty.
        if object.key <= self.last_key.as_slice() {
            return Err(ValidationError::Order {
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

    /// Reads the head of a field, and checks that the whole field fits into `left` bytes. The inner
    /// error is the number of input bytes needed to continue.
    fn read_head(
        &self,
        input: &[u8],
        left: u64,
    ) -> Result<Result<FieldHead, usize>, ValidationError> {
        let at = self.summary.bytes;
        let head = match read_field_head(input) {
            Ok(Some(head)) => head,
            Ok(None) => {
                let need = input.len() + 1;
                let overrun = ValidationError::Overrun {
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
            Err(fields::BadField::Varint) => return Err(ValidationError::Varint { at }),
            Err(fields::BadField::WireType { field, wire_type }) => {
                return Err(ValidationError::WireType {
                    field,
                    wire_type,
                    at,
                });
            }
        };
        let len = (head.len as u64).saturating_add(head.payload_len);
        if len > left {
            return Err(ValidationError::Overrun { len, left, at });
        }
        Ok(Ok(head))
    }

    fn require_wire_type(&self, head: &FieldHead, wanted: u64) -> Result<(), ValidationError> {
        if head.wire_type == wanted {
            return Ok(());
        }
        Err(ValidationError::WireType {
            field: head.field,
            wire_type: head.wire_type,
            at: self.summary.bytes,
        })
    }

    /// Leaves each level whose message has no bytes left.
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
