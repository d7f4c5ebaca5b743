//! `opaque`: as many bytes as the list has, as one body that means nothing: what the transport takes for them between
//! these two processes, whatever a list adds. Only the bench server sends it.

use async_trait::async_trait;
use etcd_api::client::raw_list::{ListRpc, RawConnection};

use super::{ListError, Listed, Lister, chunk};
use crate::verify::Check;

/// What stands for a first chunk or object: a body has none.
const FIRST_BYTES: u64 = 32 << 10;

/// Who can be asked for bytes without meaning.
pub(super) trait Bodies: Send {
    /// Reads a body of this many bytes; answers how many came over the wire for them.
    fn body(&mut self, bytes: u64) -> impl Future<Output = Result<u64, ListError>> + Send;
}

impl Bodies for RawConnection {
    async fn body(&mut self, bytes: u64) -> Result<u64, ListError> {
        self.drain_opaque(bytes).await?;
        Ok(bytes)
    }
}

#[derive(Debug)]
pub(super) struct Opaque<B> {
    pub(super) server: B,
    pub(super) bytes: u64,
}

impl Opaque<RawConnection> {
    /// Lists once by Range, to learn how many bytes that is.
    ///
    /// # Errors
    /// When that list fails.
    pub(super) async fn new(server: RawConnection, prefix: &str) -> Result<Self, ListError> {
        let bytes = server.drain(ListRpc::Range, &chunk::whole(prefix)).await?;
        Ok(Self { server, bytes })
    }
}

#[async_trait]
impl<B: Bodies> Lister for Opaque<B> {
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
            wire_bytes: self.server.body(self.bytes).await?,
            ..Listed::default()
        })
    }

    async fn drain(&mut self) -> Result<(), ListError> {
        self.server.body(self.bytes).await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        self.server.body(self.bytes.min(FIRST_BYTES)).await?;
        Ok(())
    }
}
