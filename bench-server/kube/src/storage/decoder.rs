//! Decodes stored keys and values.

use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::resource::object::Object;

/// A decoder of the stored keys and values of one resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoder<'a> {
    pub(crate) resource: &'static Resource,
    /// The prefix of the resource's keys in storage, which is not part of an object's key.
    pub(crate) prefix: &'a [u8],
    pub(crate) metrics: &'a Metrics,
}

impl Decoder<'_> {
    /// Returns a stored key without the resource's prefix.
    pub(crate) fn relative_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.strip_prefix(self.prefix).unwrap_or(key)
    }

    /// Decodes a stored value as an object. `None` for a value that does not decode, which is
    /// counted and logged.
    pub(crate) fn object(&self, key: &[u8], value: &[u8], mod_revision: i64) -> Option<Object> {
        let key = self.relative_key(key);
        match Object::decode(self.resource, key, value, mod_revision) {
            Ok(object) => Some(object),
            Err(error) => {
                tracing::warn!(
                    "{} {} at revision {mod_revision} does not decode and is left out: {error}",
                    self.resource.name,
                    key.escape_ascii()
                );
                self.metrics.undecodable(self.resource).count();
                None
            }
        }
    }
}
