//! Stored keys and values as objects.

use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::resource::object::Object;

/// Reads what is stored of one resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoder<'a> {
    pub(crate) resource: &'static Resource,
    /// Prefix of the resource, which is left off the keys of objects.
    pub(crate) prefix: &'a [u8],
    pub(crate) metrics: &'a Metrics,
}

impl Decoder<'_> {
    /// A stored key below the resource's prefix.
    pub(crate) fn relative_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.strip_prefix(self.prefix).unwrap_or(key)
    }

    /// The object in a stored value; one that does not decode is counted and named in the log.
    pub(crate) fn object(&self, key: &[u8], value: &[u8], mod_revision: i64) -> Option<Object> {
        let key = self.relative_key(key);
        match Object::decode(self.resource, key, value, mod_revision) {
            Ok(object) => Some(object),
            Err(error) => {
                tracing::warn!(
                    "{} {} at revision {mod_revision} is left out: {error}",
                    self.resource.name,
                    key.escape_ascii()
                );
                self.metrics.undecodable(self.resource).count();
                None
            }
        }
    }
}
