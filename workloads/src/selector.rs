//! Selectors of a case, and the objects of a data set that they select. The selection is computed
//! from the data set alone, so that responses are checked independently of the server.

use std::collections::HashMap;
use std::fmt;

use kube_api::envelope;
use kube_api::protobuf::{Fields, find_bytes};
use kube_api::selector::{FieldSelector, LabelSelector};

use crate::{DataSet, Fingerprint};

/// Longest selector in a strategy's name, bytes.
pub const MAX_SELECTOR_BYTES: usize = 120;
/// A placeholder for a node's name: each list requests the objects of the next node.
pub const NODE: &str = "{node}";
/// Paths of the supported fields, with their protobuf field numbers. Name and namespace have none:
/// they are read from the key.
const FIELDS: [(&str, &[u32]); 5] = [
    ("metadata.name", &[]),
    ("metadata.namespace", &[]),
    ("spec.nodeName", &[2, 10]),
    ("spec.schedulerName", &[2, 19]),
    ("status.phase", &[3, 1]),
];
const METADATA: u32 = 1;
const LABELS: u32 = 11;

/// A label or field selector, as written in a URL. Stored inline, so that strategies are `Copy`.
///
/// A selector that begins with `metadata.`, `spec.` or `status.` is a field selector; label keys do
/// not begin so.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    text: [u8; MAX_SELECTOR_BYTES],
    len: u8,
}

/// An invalid selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selector `{text}`: {reason}")]
pub struct SelectorError {
    /// The selector's text.
    pub text: String,
    /// Why the selector is invalid.
    pub reason: String,
}

/// Fingerprints of the objects of a data set that a selector selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selected {
    /// All selected objects, of all nodes together.
    pub all: Fingerprint,
    /// By node, for a selector with [`NODE`].
    pub by_node: HashMap<String, Fingerprint>,
}

// === impl Selector ===

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// [`SelectorError`] if the text is empty, longer than [`MAX_SELECTOR_BYTES`] bytes, or invalid
    /// in the grammar of its kind.
    pub fn new(text: &str) -> Result<Self, SelectorError> {
        let refused = |reason: String| SelectorError {
            text: text.to_owned(),
            reason,
        };
        if text.is_empty() || text.len() > MAX_SELECTOR_BYTES {
            return Err(refused(format!("needs 1 to {MAX_SELECTOR_BYTES} bytes")));
        }
        let mut selector = Self {
            text: [0; MAX_SELECTOR_BYTES],
            len: text.len() as u8,
        };
        selector.text[..text.len()].copy_from_slice(text.as_bytes());
        selector.matcher("node").map_err(refused)?;
        Ok(selector)
    }

    /// Returns the selector's text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Returns whether this is a field selector.
    #[must_use]
    pub fn is_field(&self) -> bool {
        ["metadata.", "spec.", "status."]
            .iter()
            .any(|start| self.text().starts_with(start))
    }

    /// Returns whether the selector contains [`NODE`], so that each list requests another node's
    /// objects.
    #[must_use]
    pub fn is_per_node(&self) -> bool {
        self.text().contains(NODE)
    }

    /// Returns the selector's text for one node, as it is sent.
    #[must_use]
    pub fn of_node(&self, node: &str) -> String {
        self.text().replace(NODE, node)
    }

    /// Returns the fingerprints of the selected objects of `data`. Generates every object once:
    /// about 3 µs per pod.
    #[must_use]
    pub fn select(&self, data: &DataSet) -> Selected {
        let mut selected = Selected::default();
        let fixed = self.matcher("").ok().filter(|_| !self.is_per_node());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for i in 0..data.len() {
            key.clear();
            value.clear();
            data.write_key(i, &mut key);
            data.write_value(i, &mut value);
            let object = Object::new(&key, &value);
            if let Some(matcher) = &fixed {
                if matcher.matches(&object) {
                    selected.all.add(&key, &value);
                }
                continue;
            }
            // Only the list of the object's own node can contain it.
            let node = String::from_utf8_lossy(object.field("spec.nodeName")).into_owned();
            let own = self.matcher(&node);
            if own.is_ok_and(|matcher| matcher.matches(&object)) {
                selected.all.add(&key, &value);
                let of_node = selected.by_node.entry(node).or_default();
                of_node.add(&key, &value);
            }
        }
        selected
    }

    /// Returns the numbers of the selected objects, for a selector without [`NODE`]. Costs as much
    /// as [`Self::select`].
    #[must_use]
    pub fn numbers(&self, data: &DataSet) -> Vec<u64> {
        let Ok(matcher) = self.matcher("") else {
            return Vec::new();
        };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let selected = (0..data.len()).filter(|&i| {
            key.clear();
            value.clear();
            data.write_key(i, &mut key);
            data.write_value(i, &mut value);
            matcher.matches(&Object::new(&key, &value))
        });
        selected.collect()
    }

    fn matcher(&self, node: &str) -> Result<Matcher, String> {
        let text = self.of_node(node);
        Ok(if self.is_field() {
            let known = |path: &str| FIELDS.iter().any(|(field, _)| *field == path);
            Matcher::Fields(FieldSelector::parse(&text, known).map_err(|e| e.to_string())?)
        } else {
            Matcher::Labels(LabelSelector::parse(&text).map_err(|e| e.to_string())?)
        })
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selector({:?})", self.text())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

enum Matcher {
    Labels(LabelSelector),
    Fields(FieldSelector),
}

impl Matcher {
    fn matches(&self, object: &Object<'_>) -> bool {
        match self {
            Self::Labels(labels) => labels.matches(|key| object.label(key.as_bytes())),
            Self::Fields(fields) => fields.matches(|path| object.field(path)),
        }
    }
}

/// A decoded object.
struct Object<'o> {
    namespace: &'o [u8],
    name: &'o [u8],
    encoded: &'o [u8],
}

impl<'o> Object<'o> {
    fn new(key: &'o [u8], value: &'o [u8]) -> Self {
        let mut parts = key.rsplitn(3, |byte| *byte == b'/');
        Self {
            name: parts.next().unwrap_or_default(),
            namespace: parts.next().unwrap_or_default(),
            encoded: envelope::open(value).unwrap_or_default(),
        }
    }

    fn field(&self, path: &str) -> &'o [u8] {
        match path {
            "metadata.name" => self.name,
            "metadata.namespace" => self.namespace,
            _ => {
                let numbers = FIELDS.iter().find(|(known, _)| *known == path);
                let numbers = numbers.map_or(&[][..], |(_, numbers)| *numbers);
                numbers.iter().fold(self.encoded, |message, number| {
                    let found = find_bytes(message, *number);
                    found.ok().flatten().unwrap_or_default()
                })
            }
        }
    }

    fn label(&self, key: &[u8]) -> Option<&'o [u8]> {
        let metadata = find_bytes(self.encoded, METADATA).ok().flatten()?;
        let entries = Fields::new(metadata).filter_map(Result::ok);
        let entries = entries.filter(|field| field.number == LABELS);
        entries
            .filter_map(|field| field.wire.bytes())
            .find_map(|entry| {
                let found = find_bytes(entry, 1).ok().flatten().unwrap_or_default();
                (found == key).then(|| find_bytes(entry, 2).ok().flatten().unwrap_or_default())
            })
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use crate::{DataSetSpec, Kind};

    fn pods(objects: u64, nodes: u32) -> DataSet {
        DataSet::new(&DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: NonZeroU64::new(objects).expect("some"),
            object_size: None,
            object_sizes: None,
            namespaces: NonZeroU32::new(2),
            nodes: NonZeroU32::new(nodes),
            seed: 1,
        })
    }

    #[test]
    fn every_pod_is_on_one_node() {
        let data = pods(300, 10);
        let selected = Selector::new("spec.nodeName={node}")
            .expect("a selector")
            .select(&data);
        assert_eq!(selected.all, data.fingerprint(0..300));
        assert_eq!(selected.by_node.len(), 10);
        assert!(selected.by_node.values().all(|of| of.objects == 30));
    }

    #[test]
    fn labels_and_fields_select_their_objects() {
        let data = pods(300, 10);
        let count = |text| {
            let selector = Selector::new(text).expect("a selector");
            selector.select(&data).all.objects
        };
        assert_eq!(count("loadgen.example/none=1"), 0);
        let by_team = Selector::new("team=billing").expect("a selector");
        let numbers = by_team.numbers(&data);
        assert_eq!(numbers.len() as u64, by_team.select(&data).all.objects);
        assert_eq!(count("!loadgen.example/none"), 300);
        assert_eq!(count("metadata.namespace!=x"), 300);
        assert_eq!(count("status.phase=Running"), 300);
        let first = String::from_utf8_lossy(&data.key(0)).into_owned();
        let namespace = first.split('/').nth(1).expect("pods/NAMESPACE/NAME");
        assert_eq!(count(&format!("metadata.namespace={namespace}")), 150);
    }

    #[test]
    fn selectors_that_no_server_accepts_are_rejected() {
        for text in [
            "",
            "spec.color=red",
            "a in",
            "spec.nodeName",
            &"x".repeat(121),
        ] {
            assert!(Selector::new(text).is_err(), "{text}");
        }
    }
}
