//! Protobuf objects as the JSON that an apiserver would print for them.
//!
//! Straight from one wire to the other by the [`crate::schema`], without building the object: fields in
//! the order of Go's structs, zero values by each field's rule, strings escaped as Go's encoder does
//! with HTML escaping on (what Kubernetes' serializer uses).
//!
//! - [`writer`]: what fields are written by; [`message`]: those of a message; [`value`]: what is in them; [`tidy`]: messages in another order
//! - [`text`]: the text being written; [`escape`]: what is escaped in it
//! - [`series`]: many objects, of which neighbours are alike; [`trace`]: where an object's fields lie on both
//!   wires; [`compare`]: what another one has different, a [`patch`] each; [`course`]: the way to that, taken again through the next

mod compare;
mod course;
mod escape;
mod message;
mod patch;
mod series;
pub(crate) mod text;
mod tidy;
mod trace;
mod value;
mod writer;

use self::trace::Untraced;
use self::writer::Writer;
use crate::protobuf::Malformed;
use crate::schema::{Field, Message};
pub use escape::put_string;
pub use series::JsonSeries;

/// An object that could not be shown as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToJsonError {
    /// The bytes are no protobuf.
    #[error("{message}: {source}")]
    Malformed {
        /// The message type that was being read.
        message: &'static str,
        /// Where and why.
        source: Malformed,
    },
    /// A field has a wire type that does not fit its kind.
    #[error("{message}: field `{field}` has another wire type than its kind")]
    WireType {
        /// The message type that was being read.
        message: &'static str,
        /// The field's JSON name.
        field: &'static str,
    },
}

/// Appends the object of type `message` that `bytes` hold. `head` is written first inside its braces
/// (`"kind":"Pod","apiVersion":"v1"` for an object that stands alone, empty for a list's item).
///
/// Fields that the schema does not know are left out, as an older apiserver would. `fieldsV1` is taken
/// to be the compact JSON that an apiserver stored and is not parsed. One allocation for the walk.
///
/// # Errors
/// `bytes` are not such an object; `out` then holds the part before the error.
pub fn to_json(
    message: &'static Message,
    bytes: &[u8],
    head: &str,
    out: &mut Vec<u8>,
) -> Result<(), ToJsonError> {
    Writer::new(out, Untraced).object(message, bytes, head)
}

// === impl ToJsonError ===

impl ToJsonError {
    #[cold]
    fn malformed(message: &'static Message, source: Malformed) -> Self {
        Self::Malformed {
            message: message.name(),
            source,
        }
    }

    /// The error of a field's value; none is a wire type that does not fit.
    #[cold]
    fn misfit(message: &'static Message, field: &'static Field, error: Option<Self>) -> Self {
        error.unwrap_or(Self::WireType {
            message: message.name(),
            field: field.name(),
        })
    }
}

impl From<Malformed> for ToJsonError {
    fn from(source: Malformed) -> Self {
        Self::Malformed {
            message: "value",
            source,
        }
    }
}

#[cfg(test)]
mod tests;
