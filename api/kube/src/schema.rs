//! The schema of Kubernetes' messages in both encodings: field numbers for protobuf; names and the
//! rules of Go's encoder for JSON.
//!
//! It drives both directions ([`crate::to_json()`], [`crate::from_json()`]), so another kind takes
//! a few more lines of schema and no code. Kinds without a schema cannot be converted from protobuf
//! to JSON.

pub mod containers;
pub mod event;
pub mod lease;
pub mod meta;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod secret;
pub mod status;
pub mod volumes;

#[cfg(test)]
mod tests;

pub use event::{EVENT, EVENT_LIST};
pub use lease::{LEASE, LEASE_LIST};
pub use meta::{OBJECT_META, PARTIAL_OBJECT_METADATA, STATUS};
pub use namespace::{NAMESPACE, NAMESPACE_LIST};
pub use node::{NODE, NODE_LIST};
pub use pod::{CONFIG_MAP, CONFIG_MAP_LIST, POD, POD_LIST};
pub use secret::{SECRET, SECRET_LIST};

use crate::to_json::text::Key;

/// A message type.
#[derive(Debug)]
pub struct Message {
    name: &'static str,
    fields: &'static [Field],
    /// Position in `fields` plus one, by field number; 0 for numbers without a field.
    by_number: [u8; Message::NUMBERS],
    /// The fields that JSON includes even when absent, and inline ones; a bit for each position.
    always: u64,
    /// See [`Message::has_json_order`].
    json_order: bool,
}

/// A field of a [`Message`].
#[derive(Debug)]
pub struct Field {
    /// Number on the protobuf wire.
    pub number: u8,
    /// `"name":`, ready to be copied; `"":` for [`Rule::Inline`].
    pub(crate) key: Key,
    /// The type of its value.
    pub kind: Kind,
    /// The rule for when it is written.
    pub rule: Rule,
}

/// The type of a field's value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// UTF-8 text.
    Str,
    /// Boolean.
    Bool,
    /// int64.
    Int,
    /// int32.
    Int32,
    /// Another message.
    Object(&'static Message),
    /// `metav1.Time`: seconds and nanoseconds; RFC 3339 in JSON.
    Time,
    /// `metav1.MicroTime`: the same with microseconds, always six digits of them.
    MicroTime,
    /// `resource.Quantity`: a message holding a string; a string in JSON.
    Quantity,
    /// `intstr.IntOrString`: a message of three fields; a number or a string in JSON.
    IntOrString,
    /// `metav1.FieldsV1`: a message holding JSON text; that text in JSON.
    FieldsV1,
    /// `map[string]string`.
    MapStr,
    /// `map[string][]byte`: Base64 in JSON.
    MapBytes,
    /// `map[string]resource.Quantity`.
    MapQuantity,
}

/// When a field is written. In protobuf all fields are written, except absent pointers and empty
/// lists and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// JSON writes it even when zero.
    Always,
    /// JSON omits it when zero or empty.
    OmitZero,
    /// A pointer: in both encodings omitted when absent and written when zero.
    Optional,
    /// A pointer that is `null` in JSON when absent.
    OptionalOrNull,
    /// Repeated; omitted when empty.
    List,
    /// Repeated; `null` in JSON when empty.
    ListOrNull,
    /// A message whose fields are in the enclosing object in JSON.
    Inline,
}

// === impl Message ===

impl Message {
    /// Upper bound (exclusive) of field numbers and of positions.
    pub(crate) const NUMBERS: usize = 64;

    const fn new(name: &'static str, fields: &'static [Field]) -> Self {
        let mut by_number = [0; Self::NUMBERS];
        let mut always = 0;
        let mut json_order = true;
        let mut highest = 0;
        let mut i = 0;
        assert!(fields.len() <= 64, "one bit for each field");
        while i < fields.len() {
            if matches!(
                fields[i].rule,
                Rule::Always | Rule::OptionalOrNull | Rule::ListOrNull | Rule::Inline
            ) {
                always |= 1 << i;
            }
            if fields[i].is_common() {
                json_order &= highest < fields[i].number;
                highest = fields[i].number;
            }
            assert!(
                by_number[fields[i].number as usize] == 0,
                "field number occurs twice"
            );
            i += 1;
            by_number[fields[i - 1].number as usize] = i as u8;
        }
        Self {
            name,
            fields,
            by_number,
            always,
            json_order,
        }
    }

    /// Returns whether wire order (ascending field numbers) is mostly the order of JSON: the
    /// numbers of common fields ascend in the schema.
    #[inline]
    pub(crate) fn has_json_order(&self) -> bool {
        self.json_order
    }

    /// Returns the fields that JSON includes even when absent, a bit for each position.
    #[inline]
    pub(crate) fn always(&self) -> u64 {
        self.always
    }

    /// Returns the name of the message type, for errors.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the fields in the order of JSON.
    pub fn fields(&self) -> &'static [Field] {
        self.fields
    }

    /// Returns the fields in the order of their numbers, which is the order in protobuf.
    pub(crate) fn by_number(&self) -> impl Iterator<Item = &'static Field> {
        let places = self.by_number.iter().filter(|place| **place > 0);
        places.map(|place| &self.fields[usize::from(*place) - 1])
    }

    /// Returns the field with the JSON name `name`, and the message that contains it: this one or
    /// an inline one.
    pub fn find(&'static self, name: &str) -> Option<(&'static Message, &'static Field)> {
        self.fields
            .iter()
            .find_map(|field| match (field.rule, field.kind) {
                (Rule::Inline, Kind::Object(inner)) => inner.find(name),
                _ => (field.name() == name).then_some((self, field)),
            })
    }

    /// Returns the position of a field number in [`Self::fields`].
    #[inline]
    pub(crate) fn position(&self, number: u32) -> Option<u8> {
        match self.by_number.get(number as usize) {
            Some(0) | None => None,
            Some(&position) => Some(position - 1),
        }
    }
}

// === impl Field ===

impl Field {
    /// Returns whether the field is a list or a map, whose values are adjacent on the wire.
    pub(crate) fn repeats(&self) -> bool {
        matches!(self.rule, Rule::List | Rule::ListOrNull)
            || matches!(self.kind, Kind::MapStr | Kind::MapBytes | Kind::MapQuantity)
    }

    /// Returns whether the field is assumed to be present in many objects. Only
    /// [`Message::has_json_order`] relies on this.
    const fn is_common(&self) -> bool {
        match self.rule {
            Rule::Always | Rule::Inline => true,
            Rule::OmitZero => matches!(self.kind, Kind::Str | Kind::Int | Kind::Int32),
            Rule::List => matches!(self.kind, Kind::Object(_)),
            _ => false,
        }
    }

    /// Returns the name in JSON; empty for [`Rule::Inline`].
    pub fn name(&self) -> &'static str {
        self.key.name()
    }
}

macro_rules! messages {
    ($($constant:ident = $name:literal {
        $($number:literal $field:literal $kind:ident $(($object:ident))? $rule:ident,)*
    })*) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub static $constant: $crate::schema::Message = $crate::schema::Message::new($name, &[
                $($crate::schema::Field {
                    number: $number,
                    key: $crate::to_json::text::Key::new(concat!("\"", $field, "\":")),
                    kind: $crate::schema::Kind::$kind $((&$object))?,
                    rule: $crate::schema::Rule::$rule,
                },)*
            ]);
        )*
    };
}
use messages;
