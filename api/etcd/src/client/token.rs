//! The token of an authenticated user. All connections of a client share it, so renewing it once
//! renews it for all of them.

use std::sync::Arc;

use http::HeaderValue;
use parking_lot::RwLock;

/// A replaceable token; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Token(Arc<RwLock<Option<HeaderValue>>>);

impl Token {
    pub(super) fn get(&self) -> Option<HeaderValue> {
        self.0.read().clone()
    }

    pub(super) fn set(&self, token: Option<HeaderValue>) {
        *self.0.write() = token;
    }
}

impl From<Option<HeaderValue>> for Token {
    fn from(token: Option<HeaderValue>) -> Self {
        Self(Arc::new(RwLock::new(token)))
    }
}
