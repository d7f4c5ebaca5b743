//! Messages whose fields come in another order than Kubernetes writes them, or twice.

use super::ToJsonError;
use super::value::entry;
use crate::protobuf::Fields;
use crate::schema::{Kind, Message, Rule};

/// The same message as Kubernetes would have written it: fields by their numbers, of what is there twice the
/// last, maps by their keys. What the schema does not know is gone.
#[cold]
pub(super) fn tidied(message: &'static Message, bytes: &[u8]) -> Result<Vec<u8>, ToJsonError> {
    let mut found = Vec::new();
    for field in Fields::new(bytes) {
        let field = field.map_err(|source| ToJsonError::malformed(message, source))?;
        if let Some(position) = message.position(field.number) {
            let row = &message.fields()[usize::from(position)];
            let key = match row.kind {
                Kind::MapStr | Kind::MapBytes | Kind::MapQuantity => {
                    entry(field.wire)
                        .map_err(|error| ToJsonError::misfit(message, row, error))?
                        .0
                }
                _ => &[],
            };
            found.push((field.number, key, field, row));
        }
    }
    found.sort_by_key(|(number, key, ..)| (*number, *key));
    let mut out = Vec::with_capacity(bytes.len());
    for (i, (number, key, field, row)) in found.iter().enumerate() {
        let is_list = matches!(row.rule, Rule::List | Rule::ListOrNull);
        let next = found.get(i + 1).map(|(number, key, ..)| (number, key));
        if is_list || next != Some((number, key)) {
            out.extend_from_slice(&bytes[field.start..field.end]);
        }
    }
    Ok(out)
}
