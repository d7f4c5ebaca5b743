//! `opaque`: as many bytes as the list has, as one HTTP/2 body that means nothing: what the transport takes for them
//! between these two processes, whatever a list adds. Only the bench server sends it.

use async_trait::async_trait;
use etcd_api::client::raw_list::{ListRpc, RawConnection};

use super::{ListError, Listed, Lister, chunk};
use crate::verify::Check;

/// What stands for a first chunk: a body has no chunks.
const FIRST_BYTES: u64 = 32 << 10;

#[derive(Debug)]
pub(super) struct Opaque {
    connection: RawConnection,
    bytes: u64,
}

impl Opaque {
    /// Lists once by Range, to learn how many bytes that is.
    ///
    /// # Errors
    /// When that list fails.
    pub(super) async fn new(connection: RawConnection, prefix: &str) -> Result<Self, ListError> {
        let bytes = connection
            .drain(ListRpc::Range, &chunk::whole(prefix))
            .await?;
        Ok(Self { connection, bytes })
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
        self.opaque(self.bytes).await?;
        Ok(Listed {
            chunks: 1,
            wire_bytes: self.bytes,
            ..Listed::default()
        })
    }

    async fn drain(&mut self) -> Result<(), ListError> {
        self.opaque(self.bytes).await
    }

    async fn opaque(&mut self, bytes: u64) -> Result<(), ListError> {
        Ok(self.connection.drain_opaque(bytes).await?)
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        self.opaque(self.bytes.min(FIRST_BYTES)).await
    }
}
