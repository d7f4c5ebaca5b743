//! Specifications of data sets.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

use crate::sizes::{WeightedSize, check_weights};

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSetSpec {
    /// Name in results; unique in its scenario.
    pub name: String,
    /// Kind of the objects.
    pub kind: Kind,
    /// Number of objects.
    pub objects: NonZeroU64,
    /// Exact size of each stored value, bytes. `config-maps` and `raw` have this or
    /// `object_sizes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_size: Option<NonZeroU64>,
    /// Exact sizes of stored values, drawn by weight: which object has which is a function of the
    /// seed and its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_sizes: Option<Vec<WeightedSize>>,
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
        self.check_fields()
            .and_then(|()| self.check_sizes())
            .map_err(|message| format!("data set `{}`{message}", self.name))
    }

    fn check_fields(&self) -> Result<(), String> {
        let (size, namespaces, nodes) = match self.kind {
            Kind::Pods => (false, true, true),
            Kind::ConfigMaps => (true, true, false),
            Kind::Raw => (true, false, false),
        };
        let size_field = match (&self.object_size, &self.object_sizes) {
            (Some(_), Some(_)) => {
                return Err(" has both `object_size` and `object_sizes`".to_owned());
            }
            (None, Some(_)) => "object_sizes",
            (_, None) => "object_size",
        };
        let is_sized = self.object_size.is_some() || self.object_sizes.is_some();
        let fields = [
            (size_field, is_sized, size),
            ("namespaces", self.namespaces.is_some(), namespaces),
            ("nodes", self.nodes.is_some(), nodes),
        ];
        match fields
            .into_iter()
            .find(|(_, given, wanted)| given != wanted)
        {
            Some(("object_size", _, true)) => {
                Err(" of this kind needs `object_size` or `object_sizes`".to_owned())
            }
            Some((field, _, true)) => Err(format!(" of this kind needs `{field}`")),
            Some((field, _, false)) => Err(format!(" of this kind does not take `{field}`")),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), String> {
        let check = |field: &str, size: u64| {
            let smallest = self.kind.smallest_size();
            if size < smallest {
                return Err(format!(
                    ": {field} {size} is too small, at least {smallest} bytes are needed"
                ));
            }
            if size > LARGEST_SIZE {
                return Err(format!(
                    ": {field} {size} is too large, etcd takes requests of at most {LARGEST_SIZE} bytes"
                ));
            }
            Ok(())
        };
        if let Some(size) = self.object_size {
            check("object_size", size.get())?;
        }
        let Some(table) = &self.object_sizes else {
            return Ok(());
        };
        if table.len() > MAX_SIZES {
            return Err(format!(
                ": {} object_sizes are given, at most {MAX_SIZES} are taken",
                table.len()
            ));
        }
        for entry in table {
            check("object_sizes: bytes =", u64::from(entry.bytes))?;
        }
        check_weights(table).map_err(|error| format!(": object_sizes: {error}"))
    }

    /// Returns the table of sizes; empty for a kind that has its own. All objects have
    /// `object_size` if that is given.
    pub(crate) fn size_table(&self) -> Vec<WeightedSize> {
        match (&self.object_sizes, self.object_size) {
            (Some(table), _) => table.clone(),
            (None, Some(size)) => vec![WeightedSize {
                bytes: u32::try_from(size.get()).unwrap_or(u32::MAX),
                weight: 1.0,
            }],
            (None, None) => Vec::new(),
        }
    }
}

/// The most different sizes of a data set. ConfigMaps have a template for each.
const MAX_SIZES: usize = 100;
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
