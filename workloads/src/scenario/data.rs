//! Specifications of data sets.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

/// The kind of objects of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Pods as an apiserver stores them, about 10.1 KB each.
    Pods,
    /// ConfigMaps as an apiserver stores them, of any size.
    ConfigMaps,
    /// Keys with random bytes, which an apiserver cannot decode.
    Raw,
}

impl Kind {
    /// Returns whether the Kubernetes tier can serve these objects.
    pub fn is_kubernetes(self) -> bool {
        self != Self::Raw
    }
}

/// The specification of a data set: everything that its bytes depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSetSpec {
    /// Name in results; unique in its scenario.
    pub name: String,
    /// Kind of the objects.
    pub kind: Kind,
    /// Number of objects.
    pub objects: NonZeroU64,
    /// Exact size of each stored value, bytes; only for `config-maps` and `raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_size: Option<NonZeroU64>,
    /// Number of namespaces; only for `pods` and `config-maps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<NonZeroU32>,
    /// Number of nodes that the pods run on; only for `pods`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NonZeroU32>,
    /// Seed: every object is a function of the seed and its number.
    pub seed: u64,
}

// === impl DataSetSpec ===

impl DataSetSpec {
    /// Checks that the fields fit the kind and each other.
    pub(super) fn check(&self) -> Result<(), String> {
        let (size, namespaces, nodes) = match self.kind {
            Kind::Pods => (false, true, true),
            Kind::ConfigMaps => (true, true, false),
            Kind::Raw => (true, false, false),
        };
        let fields = [
            ("object_size", self.object_size.is_some(), size),
            ("namespaces", self.namespaces.is_some(), namespaces),
            ("nodes", self.nodes.is_some(), nodes),
        ];
        for (field, given, wanted) in fields {
            if given != wanted {
                let verb = if wanted { "needs" } else { "does not take" };
                return Err(format!(
                    "data set `{}` of this kind {verb} `{field}`",
                    self.name
                ));
            }
        }
        match self.object_size.map(NonZeroU64::get) {
            Some(size) if size < self.kind.smallest_size() => Err(format!(
                "data set `{}`: object_size {size} is too small, at least {} bytes are needed",
                self.name,
                self.kind.smallest_size()
            )),
            Some(size) if size > LARGEST_SIZE => Err(format!(
                "data set `{}`: object_size {size} is too large, etcd takes requests of at most {LARGEST_SIZE} bytes",
                self.name
            )),
            _ => Ok(()),
        }
    }
}

/// etcd's default `--max-request-bytes`, 1.5 MiB.
const LARGEST_SIZE: u64 = 1_572_864;

impl Kind {
    fn smallest_size(self) -> u64 {
        match self {
            // Metadata and envelope of a ConfigMap with almost no data.
            Self::ConfigMaps => 700,
            Self::Pods | Self::Raw => 1,
        }
    }
}
