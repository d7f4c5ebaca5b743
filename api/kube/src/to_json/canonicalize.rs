//! Converts messages of other encoders to the form that Kubernetes writes.

use super::ToJsonError;
use super::value::entry;
use crate::protobuf::Fields;
use crate::schema::{Kind, Message, Rule};

/// Returns the message as Kubernetes would have written it: fields sorted by number and map entries
/// by key, only the last value of a repeated field, and no fields that the schema does not have.
#[cold]
pub(super) fn canonicalize(
    message: &'static Message,
    bytes: &[u8],
) -> Result<Vec<u8>, ToJsonError> {
    let mut found = Vec::new();
    for field in Fields::new(bytes) {
        let field = field.map_err(|source| ToJsonError::malformed(message, source))?;
        if let Some(position) = message.position(field.number) {
            let spec = &message.fields()[usize::from(position)];
            let key = match spec.kind {
                Kind::MapStr | Kind::MapBytes | Kind::MapQuantity => {
                    entry(field.wire)
                        .map_err(|error| ToJsonError::field_error(message, spec, error))?
                        .0
                }
                _ => &[],
            };
            found.push((field.number, key, field, spec));
        }
    }
    found.sort_by_key(|(number, key, ..)| (*number, *key));
    let mut out = Vec::with_capacity(bytes.len());
    for (i, (number, key, field, spec)) in found.iter().enumerate() {
        let is_list = matches!(spec.rule, Rule::List | Rule::ListOrNull);
        let next = found.get(i + 1).map(|(number, key, ..)| (number, key));
        if is_list || next != Some((number, key)) {
            out.extend_from_slice(&bytes[field.start..field.end]);
        }
    }
    Ok(out)
}
