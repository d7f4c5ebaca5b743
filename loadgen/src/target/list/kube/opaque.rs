//! `opaque`: as many bytes as the list has, as one body that means nothing, over the same HTTP server: what the transport
//! takes for them between these two processes. Only the bench server sends it.

use async_trait::async_trait;

use super::super::{ListError, Listed, Lister};
use super::Kube;
use crate::verify::Check;

/// What stands for a first object: a body has none.
const FIRST_BYTES: u64 = 32 << 10;

#[derive(Debug)]
pub(super) struct Opaque {
    kube: Kube,
    bytes: u64,
}

impl Opaque {
    /// Lists once, to learn how many bytes that is in the row's encoding.
    ///
    /// # Errors
    /// When that list fails.
    pub(super) async fn new(mut kube: Kube) -> Result<Self, ListError> {
        let bytes = kube.open("").await?.drain().await?;
        Ok(Self { kube, bytes })
    }
}

impl Kube {
    /// As many bytes as one body without meaning. Answers what came for them, which is the same on an HTTP that compresses none.
    pub(super) async fn opaque_body(&mut self, bytes: u64) -> Result<u64, ListError> {
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

#[async_trait]
impl Lister for Opaque {
    fn shows_objects(&self) -> bool {
        false
    }

    async fn list(
        &mut self,
        _: &mut Check,
        _: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        Ok(Listed {
            chunks: 1,
            wire_bytes: self.kube.opaque_body(self.bytes).await?,
            ..Listed::default()
        })
    }

    async fn drain(&mut self) -> Result<(), ListError> {
        self.opaque(self.bytes).await
    }

    async fn opaque(&mut self, bytes: u64) -> Result<(), ListError> {
        self.kube.opaque_body(bytes).await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        self.opaque(self.bytes.min(FIRST_BYTES)).await
    }
}
