//! Lists everything in one call, as the table of plain lists specifies: by Range or by RangeStream
//! (KEP-5966), with objects or only their keys. `unary` and `unary-incremental` are the same call.
//! The server's `--range-encoding` makes the difference.

use async_trait::async_trait;
use etcd_api::client::list_validator::Object;
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::proto::etcdserverpb::RangeRequest;
use workloads::strategy::plain::{EtcdList, EtcdResponse};

use super::chunk;
use super::error::ListError;
use super::list_client::ListClient;
use crate::verify::{Check, FaultyKeys, InvalidResponse, Listed};

#[derive(Debug)]
pub(super) struct Whole {
    connection: RawConnection,
    rpc: ListRpc,
    request: RangeRequest,
    cluster_id: Option<u64>,
}

impl Whole {
    pub(super) fn new(connection: RawConnection, list: EtcdList, prefix: &str) -> Self {
        let rpc = match list.response {
            EtcdResponse::Stream => ListRpc::RangeStream,
            EtcdResponse::Buffered | EtcdResponse::Incremental => ListRpc::Range,
        };
        Self {
            connection,
            rpc,
            request: RangeRequest {
                keys_only: list.keys_only,
                ..chunk::whole(prefix)
            },
            cluster_id: None,
        }
    }
}

#[async_trait]
impl ListClient for Whole {
    async fn list(
        &mut self,
        check: &mut Check,
        on_objects: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let Self {
            connection,
            rpc,
            request,
            cluster_id,
        } = self;
        let keys_only = request.keys_only;
        let mut with_value = FaultyKeys::default();
        let mut visit = |object: Object<'_>| {
            if keys_only && !object.value.is_empty() {
                with_value.add(object.key);
            }
            chunk::visit(check, &object);
        };
        let summary = connection.validate(*rpc, request, &mut visit, on_objects);
        let summary = summary.await?;
        chunk::check_response(&summary, cluster_id).map_err(|wrong| check.naming(wrong))?;
        chunk::check_whole(&summary)?;
        let FaultyKeys { count, first } = with_value;
        if count > 0 {
            return Err(InvalidResponse::Values { count, first }.into());
        }
        if *rpc == ListRpc::RangeStream && summary.empty_chunks > 0 {
            return Err(InvalidResponse::EmptyChunks(summary.empty_chunks).into());
        }
        Ok(Listed {
            revision: summary.revision,
            chunks: summary.messages,
            wire_bytes: summary.bytes,
        })
    }

    async fn list_unchecked(&mut self) -> Result<(), ListError> {
        self.connection
            .read_unchecked(self.rpc, &self.request)
            .await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        chunk::first_object(&self.connection, self.rpc, &self.request).await
    }
}
