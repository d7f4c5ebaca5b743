//! Data sets: objects by number, each a pure function of the data set, its seed and the number.
//!
//! Any process can generate any slice, and two machines generate the same bytes. Numbers are in the
//! order of keys, so a receiver knows which object comes next without storing any.

use std::ops::Range;

use bytes::Bytes;

use crate::config_maps::ConfigMaps;
use crate::fingerprint::Fingerprint;
use crate::pods::Pods;
use crate::random::{Stream, generator, nth_generator, put_bytes};
use crate::scenario::{DataSetSpec, Kind};
use crate::sizes::ObjectSizes;

/// The objects that a [`DataSetSpec`] describes.
#[derive(Debug)]
pub struct DataSet {
    spec: DataSetSpec,
    objects: Objects,
}

/// A version of an object, which can be changed, deleted and created again under the same key. The
/// default is the version that is loaded first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// Number of times that the object was created again, each time with another UID.
    pub incarnation: u32,
    /// Number of times that the object was changed; changes keep its length.
    pub change: u32,
}

#[derive(Debug)]
enum Objects {
    Pods(Pods),
    ConfigMaps(ConfigMaps),
    Raw(ObjectSizes),
}

impl DataSet {
    /// Prepares the parts that objects share; takes well under a second for any number of objects.
    pub fn new(spec: &DataSetSpec) -> Self {
        let (seed, objects) = (spec.seed, spec.objects.get());
        let sizes = ObjectSizes::new(seed, spec.size_table());
        let namespaces = spec.namespaces.map_or(1, |count| count.get());
        let objects = match spec.kind {
            Kind::Pods => Objects::Pods(Pods::new(
                seed,
                objects,
                namespaces,
                spec.nodes.map_or(1, |count| count.get()),
            )),
            Kind::ConfigMaps => {
                Objects::ConfigMaps(ConfigMaps::new(seed, objects, sizes, namespaces))
            }
            Kind::Raw => Objects::Raw(sizes),
        };
        Self {
            spec: spec.clone(),
            objects,
        }
    }

    /// Returns the specification.
    pub fn spec(&self) -> &DataSetSpec {
        &self.spec
    }

    /// Returns the number of objects; never 0.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a data set has at least one object"
    )]
    pub fn len(&self) -> u64 {
        self.spec.objects.get()
    }

    /// Returns the prefix of all keys, relative to a registry's prefix: `pods/`, `configmaps/`,
    /// `stream-shapes/`.
    pub fn prefix(&self) -> &'static str {
        match self.spec.kind {
            Kind::Pods => "pods/",
            Kind::ConfigMaps => "configmaps/",
            Kind::Raw => "stream-shapes/",
        }
    }

    /// Returns the number of namespaces that have objects; 0 for objects without namespace.
    pub fn namespaces(&self) -> u64 {
        match self.spec.kind {
            Kind::Raw => 0,
            Kind::Pods | Kind::ConfigMaps => self.len().div_ceil(self.per_namespace()),
        }
    }

    /// Returns the number of object `i`'s namespace; namespaces are numbered in the order of keys.
    pub fn namespace_of(&self, i: u64) -> u64 {
        self.check(i);
        i / self.per_namespace()
    }

    fn per_namespace(&self) -> u64 {
        let namespaces = self.spec.namespaces.map_or(1, |count| count.get());
        self.len().div_ceil(u64::from(namespaces))
    }

    /// Appends key `i`, relative to a registry's prefix (`pods/NAMESPACE/NAME`); keys ascend with
    /// `i`.
    ///
    /// # Panics
    /// `i` is not below [`Self::len`]. This also holds for the other methods with a number.
    pub fn write_key(&self, i: u64, out: &mut Vec<u8>) {
        self.check(i);
        out.extend_from_slice(self.prefix().as_bytes());
        match &self.objects {
            Objects::Pods(pods) => pods.write_key(i, out),
            Objects::ConfigMaps(config_maps) => config_maps.write_key(i, out),
            Objects::Raw(_) => out.extend_from_slice(format!("{i:010}").as_bytes()),
        }
    }

    /// Returns key `i`.
    pub fn key(&self, i: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        self.write_key(i, &mut key);
        key
    }

    /// Returns the length of value `i` without generating it, bytes.
    pub fn value_len(&self, i: u64) -> usize {
        self.check(i);
        match &self.objects {
            Objects::Pods(pods) => pods.value_len(i),
            Objects::ConfigMaps(config_maps) => config_maps.value_len(i),
            Objects::Raw(sizes) => sizes.of(i),
        }
    }

    /// Appends value `i` as stored. Costs about 2 µs for a pod, 0.2 ns per byte for others.
    pub fn write_value(&self, i: u64, out: &mut Vec<u8>) {
        self.write_version(i, Version::default(), out);
    }

    /// Appends a later version of value `i`, which has the length of the first and differs from all
    /// others. Raw values have no UID that could change with an incarnation.
    pub fn write_version(&self, i: u64, version: Version, out: &mut Vec<u8>) {
        self.check(i);
        match &self.objects {
            Objects::Pods(pods) => pods.write_version(i, version, out),
            Objects::ConfigMaps(config_maps) => config_maps.write_version(i, version, out),
            Objects::Raw(sizes) => {
                let mut bytes = match version.change {
                    0 => generator(self.spec.seed, Stream::Payload, i),
                    nth => nth_generator(self.spec.seed, Stream::Changes, i, nth),
                };
                put_bytes(out, &mut bytes, sizes.of(i));
            }
        }
    }

    /// Returns value `i` in one exact allocation.
    pub fn value(&self, i: u64) -> Bytes {
        let mut value = Vec::with_capacity(self.value_len(i));
        self.write_value(i, &mut value);
        value.into()
    }

    /// Returns the fingerprint that the receiver of a slice should compute.
    pub fn fingerprint(&self, slice: Range<u64>) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for i in slice {
            key.clear();
            value.clear();
            self.write_key(i, &mut key);
            self.write_value(i, &mut value);
            fingerprint.add(&key, &value);
        }
        fingerprint
    }

    /// Returns the fingerprint of all objects as if their values were empty.
    pub fn fingerprint_of_keys(&self) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        let mut key = Vec::new();
        for i in 0..self.len() {
            key.clear();
            self.write_key(i, &mut key);
            fingerprint.add(&key, b"");
        }
        fingerprint
    }

    fn check(&self, i: u64) {
        assert!(i < self.len(), "object {i} of a data set of {}", self.len());
    }
}

#[cfg(test)]
mod tests;
