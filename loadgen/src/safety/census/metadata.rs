//! Sums the labels and the `managedFields` of sampled objects: what selectors are matched against,
//! and bytes that a client may leave out of a list.

use kube_api::envelope;
use kube_api::protobuf::{Fields, find_bytes};
use serde_json::Value;

/// Field numbers: `metadata` of any object, and the fields of `ObjectMeta`.
const METADATA: u32 = 1;
const LABELS: u32 = 11;
const MANAGED_FIELDS: u32 = 17;

/// The sums over those sampled objects whose metadata can be read. Objects that an apiserver has
/// encrypted are not among them, nor values that no apiserver has stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MetadataSums {
    /// The number of objects.
    pub objects: u64,
    /// The bytes of their values.
    pub bytes: u64,
    /// The number of their labels.
    pub labels: u64,
    /// The bytes of their `managedFields`.
    pub managed_fields_bytes: u64,
}

impl MetadataSums {
    /// Returns the mean number of labels; `None` without objects.
    #[must_use]
    pub fn labels_of_each(&self) -> Option<f64> {
        (self.objects > 0).then(|| self.labels as f64 / self.objects as f64)
    }

    /// Returns the share of the bytes that are `managedFields`, 0 to 1; `None` without objects.
    #[must_use]
    pub fn managed_fields_share(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.managed_fields_bytes as f64 / self.bytes as f64)
    }

    /// Adds an object, given its stored value.
    pub(super) fn add(&mut self, value: &[u8]) {
        let read = match value.first() {
            Some(b'{') => of_json(value),
            _ => of_protobuf(value),
        };
        if let Some((labels, managed_fields_bytes)) = read {
            self.objects += 1;
            self.bytes += value.len() as u64;
            self.labels += labels;
            self.managed_fields_bytes += managed_fields_bytes;
        }
    }
}

/// Returns the number of labels and the bytes of `managedFields` of an object in Kubernetes'
/// protobuf envelope.
fn of_protobuf(value: &[u8]) -> Option<(u64, u64)> {
    let object = envelope::open(value).ok()?;
    let (mut labels, mut managed_fields_bytes) = (0, 0);
    for field in Fields::new(find_bytes(object, METADATA).ok()??) {
        let field = field.ok()?;
        match field.number {
            LABELS => labels += 1,
            MANAGED_FIELDS => managed_fields_bytes += (field.end - field.start) as u64,
            _ => {}
        }
    }
    Some((labels, managed_fields_bytes))
}

/// Like [`of_protobuf`], of an object in JSON, as custom resources are stored.
fn of_json(value: &[u8]) -> Option<(u64, u64)> {
    let object: Value = serde_json::from_slice(value).ok()?;
    let metadata = object.get("metadata")?;
    let labels = metadata.get("labels").and_then(Value::as_object);
    let managed = metadata.get("managedFields").map(Value::to_string);
    Some((
        labels.map_or(0, |labels| labels.len() as u64),
        managed.map_or(0, |text| text.len() as u64),
    ))
}

#[cfg(test)]
mod tests {
    use kube_api::protobuf::put_bytes;

    use super::*;

    #[test]
    fn labels_and_managed_fields_are_summed_in_both_encodings() {
        let mut metadata = Vec::new();
        put_bytes(&mut metadata, 1, b"web-1");
        put_bytes(&mut metadata, LABELS, b"a label");
        put_bytes(&mut metadata, LABELS, b"another");
        put_bytes(&mut metadata, MANAGED_FIELDS, &[b'm'; 100]);
        let mut object = Vec::new();
        put_bytes(&mut object, METADATA, &metadata);
        let stored = envelope::seal("v1", "Pod", &object);
        let custom = br#"{"kind":"W","metadata":{"labels":{"a":"b"},"managedFields":[{"f":{}}]}}"#;

        let mut sums = MetadataSums::default();
        sums.add(&stored);
        sums.add(custom);
        // Neither of these was stored in the clear by an apiserver.
        sums.add(b"k8s:enc:aescbc:v1:key:0123456789");
        sums.add(b"{ no JSON");
        sums.add(b"");
        assert_eq!(
            sums,
            MetadataSums {
                objects: 2,
                bytes: (stored.len() + custom.len()) as u64,
                labels: 3,
                managed_fields_bytes: 103 + r#"[{"f":{}}]"#.len() as u64,
            }
        );
        assert_eq!(sums.labels_of_each(), Some(1.5));
        assert_eq!(MetadataSums::default().managed_fields_share(), None);
    }
}
