//! `opaque` of the Kubernetes tier: its body comes over the same HTTP server as the lists.

use super::super::ListError;
use super::super::opaque::{Bodies, Opaque};
use super::Kube;

impl Opaque<Kube> {
    /// Lists once, to learn how many bytes that is in the row's encoding.
    ///
    /// # Errors
    /// When that list fails.
    pub(super) async fn of_kube(mut server: Kube) -> Result<Self, ListError> {
        let bytes = server.open("").await?.drain().await?;
        Ok(Self { server, bytes })
    }
}

impl Bodies for Kube {
    /// What came for the body is its bytes on an HTTP that compresses none.
    async fn body(&mut self, bytes: u64) -> Result<u64, ListError> {
        let path = format!("/debug/opaque?bytes={bytes}");
        let mut body = self.connection.get(&path, "*/*").await?;
        let received = body.drain().await?;
        if received != bytes {
            let text = format!("GET {path}: {received} bytes came");
            return Err(ListError::Http(text));
        }
        Ok(body.wire_bytes())
    }
}
