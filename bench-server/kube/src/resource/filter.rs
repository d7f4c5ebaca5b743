//! Selectors. They are applied to encoded objects, without decoding or allocating.

use std::sync::Arc;

use kube_api::protobuf::{Fields, WireValue, find_bytes};
use kube_api::selector::{FieldSelector, LabelSelector};
use kube_api::{ListOptions, ShardKey, ShardSelector, Status};

use super::object::Object;
use super::representation::METADATA;
use super::{Field, Resource};
use crate::feature_gates::FeatureGates;

const LABELS: u32 = 11;

/// The fields by which every kind can be selected. Their values are in the key.
pub(crate) const NAME: &str = "metadata.name";
pub(crate) const NAMESPACE: &str = "metadata.namespace";

/// The selectors of a request.
#[derive(Debug)]
pub(crate) struct Filter {
    resource: &'static Resource,
    labels: LabelSelector,
    fields: FieldSelector,
    shard: Option<Shard>,
}

/// The shard to which objects must belong.
#[derive(Debug)]
struct Shard {
    selector: Arc<ShardSelector>,
    /// Whether to use the hash that was computed when the object was decoded. Otherwise the uid is
    /// hashed each time.
    keeps_hash: bool,
}

impl Shard {
    fn matches(&self, object: &Object) -> bool {
        let key = self.selector.key();
        self.selector.selects(match key {
            ShardKey::Uid if self.keeps_hash => object.uid_hash(),
            ShardKey::Uid => key.hash(object.uid(), b""),
            ShardKey::Namespace => key.hash(b"", object.namespace()),
        })
    }
}

impl Filter {
    /// Parses the label, field and shard selectors.
    ///
    /// # Errors
    /// 400 for a label or field selector that cannot be parsed, or that contains a field by which
    /// the kind cannot be selected; 500 for a shard selector that cannot be parsed, as in
    /// k8s.io/apiserver.
    pub(crate) fn parse(
        resource: &'static Resource,
        options: &ListOptions,
        gates: FeatureGates,
    ) -> Result<Self, Status> {
        let refused = |error: &dyn std::error::Error| Status::bad_request(error.to_string());
        let labels =
            LabelSelector::parse(&options.label_selector).map_err(|error| refused(&error))?;
        let fields =
            FieldSelector::parse(&options.field_selector, |path| resource.is_selectable(path))
                .map_err(|error| match (&error, resource.selectable) {
                    // The error for a kind without other fields lists the two that it has.
                    (kube_api::selector::FieldSelectorError::Unsupported(path), None) => {
                        Status::bad_request(format!(
                            "{path:?} is not a known field selector: only {NAME:?}, {NAMESPACE:?}"
                        ))
                    }
                    _ => refused(&error),
                })?;
        let asked = gates.sharded_list_and_watch && !options.shard_selector.is_empty();
        let shard = match asked.then(|| ShardSelector::parse(&options.shard_selector)) {
            None => None,
            Some(Ok(selector)) => Some(Shard {
                selector: Arc::new(selector),
                keeps_hash: gates.shard_index,
            }),
            Some(Err(error)) => {
                return Err(Status::internal(format!("invalid shard selector: {error}")));
            }
        };
        Ok(Self {
            resource,
            labels,
            fields,
            shard,
        })
    }

    /// Returns a filter that selects all objects.
    pub(crate) fn none(resource: &'static Resource) -> Self {
        Self {
            resource,
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
            shard: None,
        }
    }

    /// Returns the resource whose objects the filter selects.
    pub(crate) fn resource(&self) -> &'static Resource {
        self.resource
    }

    /// Returns whether the filter selects all objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.shard.is_none() && self.selects_whole_shard()
    }

    /// Returns whether the filter selects all objects of its shard, or all objects if it has no
    /// shard.
    pub(crate) fn selects_whole_shard(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns the shard, if any.
    pub(crate) fn shard(&self) -> Option<&Arc<ShardSelector>> {
        self.shard.as_ref().map(|shard| &shard.selector)
    }

    /// Returns the shard, if the hashes computed when objects were decoded may be used.
    pub(crate) fn indexed_shard(&self) -> Option<&Arc<ShardSelector>> {
        let indexed = self.shard.as_ref().filter(|shard| shard.keeps_hash);
        indexed.map(|shard| &shard.selector)
    }

    /// Returns whether the object is in the filter's shard; `true` without a shard.
    pub(crate) fn is_in_shard(&self, object: &Object) -> bool {
        self.shard
            .as_ref()
            .is_none_or(|shard| shard.matches(object))
    }

    /// Returns the value that a field must have, if the filter requires one.
    pub(crate) fn demands_field(&self, path: &str) -> Option<&str> {
        self.fields.required_value(path)
    }

    /// Returns the labels that an object must have, each with the allowed values (none: any value).
    pub(crate) fn demands_labels(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.labels.required_labels()
    }

    /// Returns whether the filter has a label selector.
    pub(crate) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Returns whether the filter selects the object. Reads the metadata up to the labels, and, for
    /// each field of the field selector, the fields on its path.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        if !self.is_in_shard(object) {
            return false;
        }
        if !self.labels.is_empty() {
            let metadata = metadata(object.encoded());
            if !self.labels.matches(|key| label(metadata, key.as_bytes())) {
                return false;
            }
        }
        self.fields.is_empty()
            || self
                .fields
                .matches(|path| field_of(self.resource, object, path))
    }
}

impl Resource {
    fn is_selectable(&self, path: &str) -> bool {
        match path {
            NAME => true,
            // Kinds with additional selectable fields can be selected by namespace only if they are
            // namespaced.
            NAMESPACE => self.namespaced || self.selectable.is_none(),
            _ => self.field(path).is_some(),
        }
    }

    fn field(&self, path: &str) -> Option<Field> {
        let mut fields = self.selectable.unwrap_or_default().iter();
        fields.find(|(name, _)| *name == path).map(|(_, at)| *at)
    }
}

/// Returns the value of a selectable field of an object; empty if it is not set.
pub(crate) fn field_of<'o>(resource: &Resource, object: &'o Object, path: &str) -> &'o [u8] {
    match path {
        NAMESPACE => object.namespace(),
        NAME => object.name(),
        _ => match resource.field(path) {
            Some(Field::Text(numbers)) => descend(object.encoded(), numbers),
            Some(Field::TextOr(numbers, others)) => match descend(object.encoded(), numbers) {
                b"" => descend(object.encoded(), others),
                text => text,
            },
            Some(Field::Flag([above @ .., number])) => {
                match flag(descend(object.encoded(), above), *number) {
                    true => b"true",
                    false => b"false",
                }
            }
            _ => &[],
        },
    }
}

fn descend<'o>(encoded: &'o [u8], numbers: &[u32]) -> &'o [u8] {
    numbers.iter().fold(encoded, |message, number| {
        find_bytes(message, *number)
            .ok()
            .flatten()
            .unwrap_or_default()
    })
}

fn flag(message: &[u8], number: u32) -> bool {
    Fields::new(message)
        .map_while(Result::ok)
        .any(|field| field.number == number && field.wire == WireValue::Varint(1))
}

/// Returns the value of a label of an object.
pub(crate) fn label_of<'o>(object: &'o Object, key: &str) -> Option<&'o [u8]> {
    label(metadata(object.encoded()), key.as_bytes())
}

fn metadata(encoded: &[u8]) -> &[u8] {
    find_bytes(encoded, METADATA)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Returns the value of a label in encoded metadata.
fn label<'o>(metadata: &'o [u8], key: &[u8]) -> Option<&'o [u8]> {
    for field in Fields::new(metadata) {
        let field = field.ok()?;
        // Fields are in ascending order, so no label follows.
        if field.number > LABELS {
            return None;
        }
        if field.number == LABELS {
            let (found, value) = label_entry(field.wire.bytes()?)?;
            if found == key {
                return Some(value);
            }
        }
    }
    None
}

/// Returns the key and value of a map entry. Nearly all entries are two short fields, which are
/// split without a loop.
#[inline]
fn label_entry(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some((key, rest)) = short_field(entry, 1)
        && let Some((value, [])) = short_field(rest, 2)
    {
        return Some((key, value));
    }
    let field = |number| Some(find_bytes(entry, number).ok()?.unwrap_or_default());
    Some((field(1)?, field(2)?))
}

/// Returns the first field of `message`, if it has this number and fewer than 128 bytes, and the
/// bytes that follow it.
#[inline]
fn short_field(message: &[u8], number: u8) -> Option<(&[u8], &[u8])> {
    match message {
        [tag, length @ 0..0x80, rest @ ..] if *tag == number << 3 | 2 => {
            rest.split_at_checked(usize::from(*length))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube_api::protobuf::put_bytes;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Generates the text of a label, or of an annotation, which may be longer.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z./]{0,8}", "[a-z]{126,130}"]
    }

    /// Generates the fields of an entry: key and value in either order, absent, or repeated.
    fn entry() -> impl Strategy<Value = Vec<(u32, String)>> {
        prop_oneof![
            (text(), text()).prop_map(|(key, value)| vec![(1, key), (2, value)]),
            vec((1_u32..4, text()), 0..4),
        ]
    }

    proptest! {
        #[test]
        fn an_entry_is_cut_apart_as_field_by_field(fields in entry()) {
            let mut encoded = Vec::new();
            for (number, text) in &fields {
                put_bytes(&mut encoded, *number, text.as_bytes());
            }
            let first = |number| {
                let found = fields.iter().find(|(field, _)| *field == number);
                found.map_or(&b""[..], |(_, text)| text.as_bytes())
            };
            prop_assert_eq!(label_entry(&encoded), Some((first(1), first(2))));
        }

        #[test]
        fn any_bytes_are_an_entry_or_none(bytes in vec(any::<u8>(), 0..20)) {
            label_entry(&bytes);
        }
    }
}
