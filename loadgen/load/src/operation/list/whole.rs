//! Everything in one call: `unary` and `unary-incremental` by Range, `stream` by RangeStream
//! (KEP-5966). The two unary strategies are the same call; the server's `--range-encoding` makes
//! the difference.

use async_trait::async_trait;
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::proto::etcdserverpb::RangeRequest;

use super::chunk;
use super::error::ListError;
use super::lister::Lister;
use crate::verify::{Check, Listed, Wrong};

#[derive(Debug)]
pub(super) struct Whole {
    connection: RawConnection,
    rpc: ListRpc,
    request: RangeRequest,
    cluster_id: Option<u64>,
}

impl Whole {
    pub(super) fn new(connection: RawConnection, rpc: ListRpc, prefix: &str) -> Self {
        Self {
            connection,
            rpc,
            request: chunk::whole(prefix),
            cluster_id: None,
        }
    }
}

#[async_trait]
impl Lister for Whole {
    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let Self {
            connection,
            rpc,
            request,
            cluster_id,
        } = self;
        let summary = chunk::checked(connection, *rpc, request, check, on_first_object).await?;
        chunk::check_response(&summary, cluster_id)?;
        chunk::check_whole(&summary)?;
        if *rpc == ListRpc::RangeStream && summary.empty_chunks > 0 {
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
            .read_unchecked(self.rpc, &self.request)
            .await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        chunk::first_object(&self.connection, self.rpc, &self.request).await
    }
}
