//! `unary` and `unary-incremental`: everything in one Range. On the wire they are the same call; the server's
//! `--range-encoding` makes the difference.

use async_trait::async_trait;
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::proto::etcdserverpb::RangeRequest;

use super::{ListError, Listed, Lister, chunk};
use crate::verify::Check;

#[derive(Debug)]
pub(super) struct Unary {
    connection: RawConnection,
    request: RangeRequest,
}

impl Unary {
    pub(super) fn new(connection: RawConnection, prefix: &str) -> Self {
        Self {
            connection,
            request: chunk::whole(prefix),
        }
    }
}

#[async_trait]
impl Lister for Unary {
    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let Self {
            connection,
            request,
        } = self;
        let rpc = ListRpc::Range;
        let summary = chunk::checked(connection, rpc, request, check, on_first_object).await?;
        chunk::check_whole(&summary)?;
        Ok(Listed {
            revision: summary.revision,
            chunks: summary.messages,
            wire_bytes: summary.bytes,
        })
    }

    async fn drain(&mut self) -> Result<(), ListError> {
        self.connection.drain(ListRpc::Range, &self.request).await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        chunk::first_object(&self.connection, ListRpc::Range, &self.request).await
    }
}
