//! `stream`: RangeStream (KEP-5966), everything in one call of many messages.

use async_trait::async_trait;
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::proto::etcdserverpb::RangeRequest;

use super::{ListError, Listed, Lister, chunk};
use crate::verify::{Check, Wrong};

#[derive(Debug)]
pub(super) struct Stream {
    connection: RawConnection,
    request: RangeRequest,
}

impl Stream {
    pub(super) fn new(connection: RawConnection, prefix: &str) -> Self {
        Self {
            connection,
            request: chunk::whole(prefix),
        }
    }
}

#[async_trait]
impl Lister for Stream {
    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let Self {
            connection,
            request,
        } = self;
        let rpc = ListRpc::RangeStream;
        let summary = chunk::checked(connection, rpc, request, check, on_first_object).await?;
        chunk::check_whole(&summary)?;
        if summary.empty_chunks > 0 {
            return Err(Wrong::EmptyChunks(summary.empty_chunks).into());
        }
        Ok(Listed {
            revision: summary.revision,
            chunks: summary.messages,
            wire_bytes: summary.bytes,
        })
    }

    async fn drain(&mut self) -> Result<(), ListError> {
        self.connection
            .drain(ListRpc::RangeStream, &self.request)
            .await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        chunk::first_object(&self.connection, ListRpc::RangeStream, &self.request).await
    }
}
