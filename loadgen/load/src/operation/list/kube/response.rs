//! The body of a response, which records the memory of its reader.

use bytes::Bytes;
use kube_api::client::{Body, KubeError};
use measure::heap;

/// A body that is being received. Records the reader's memory before each read ([`heap::note`]).
/// The response is cancelled when this is dropped.
#[derive(Debug)]
pub(crate) struct Response(pub(super) Body);

impl Response {
    /// Returns the number of bytes received so far, before decompression.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.0.wire_bytes()
    }

    /// Returns the next bytes of the text; `None` at its end.
    ///
    /// # Errors
    /// See [`Body::next`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, KubeError> {
        heap::note();
        self.0.next().await
    }

    /// Reads to the end and discards the text.
    ///
    /// # Errors
    /// See [`Body::next`].
    pub(super) async fn discard(&mut self) -> Result<(), KubeError> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}
