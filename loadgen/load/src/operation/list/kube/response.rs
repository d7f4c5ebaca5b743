//! The bytes of a response, with what the thread that receives them holds meanwhile.

use bytes::Bytes;
use kube_api::client::{Body, KubeError};
use measure::heap;

/// A body under way, whose reader's memory is noted before each read ([`heap::note`]). Dropped, it
/// is cancelled.
#[derive(Debug)]
pub(crate) struct Response(pub(super) Body);

impl Response {
    /// Returns the number of bytes received so far, as they came.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.0.wire_bytes()
    }

    /// Returns the next bytes of the text; `None` at its end.
    ///
    /// # Errors
    /// As [`Body::next`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, KubeError> {
        heap::note();
        self.0.next().await
    }

    /// Reads to the end and throws away.
    ///
    /// # Errors
    /// As [`Body::next`].
    pub(super) async fn discard(&mut self) -> Result<(), KubeError> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}
