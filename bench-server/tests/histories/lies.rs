//! A wrapper between clients and server that breaks one guarantee, to test that the check detects
//! it.

use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::etcdserverpb::kv_client::KvClient;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::convert;

/// The guarantee that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Some ranges return an older state, with its revision.
    StaleRead,
    /// Some puts are acknowledged but not made.
    LostWrite,
    /// Some watch responses are dropped, but none of the log's watch.
    LostEvent,
    /// A lease expires immediately.
    EarlyExpiry,
}

/// The guarantee is broken for one of this many requests or responses: so few that a client makes
/// them in three seconds of a busy machine, too.
const ONE_IN: u64 = 12;
/// Number of revisions by which a stale read is behind.
const BEHIND: i64 = 20;

/// Decides for which requests of one client the guarantee is broken: one of [`ONE_IN`].
#[derive(Debug)]
pub(crate) struct Liar {
    lie: Option<Lie>,
    requests: u64,
}

impl Liar {
    pub(crate) fn new(lie: Option<Lie>) -> Self {
        Self { lie, requests: 0 }
    }

    /// Returns whether the guarantee is to be broken for this request or response, which `lie`
    /// applies to.
    pub(crate) fn lies(&mut self, lie: Lie) -> bool {
        if self.lie != Some(lie) {
            return false;
        }
        self.requests += 1;
        self.requests.is_multiple_of(ONE_IN)
    }

    /// Puts a key, or only acknowledges the put with the revision after the newest known one.
    pub(crate) async fn put(
        &mut self,
        kv: &mut KvClient<Channel>,
        newest: i64,
        request: pb::PutRequest,
    ) -> Result<pb::PutResponse, Status> {
        if self.lies(Lie::LostWrite) {
            let header = pb::ResponseHeader {
                revision: newest + 1,
                ..pb::ResponseHeader::default()
            };
            return Ok(pb::PutResponse {
                header: Some(header),
                prev_kv: None,
            });
        }
        kv.put(request).await.map(Response::into_inner)
    }

    /// Reads a range, or its state some revisions ago.
    pub(crate) async fn range(
        &mut self,
        kv: &mut KvClient<Channel>,
        request: pb::RangeRequest,
    ) -> Result<pb::RangeResponse, Status> {
        let response = kv.range(request.clone()).await?.into_inner();
        let older = convert::revision(response.header.as_ref()) - BEHIND;
        if request.revision > 0 || older < 1 || !self.lies(Lie::StaleRead) {
            return Ok(response);
        }
        let request = pb::RangeRequest {
            revision: older,
            ..request
        };
        let mut stale = kv.range(request).await?.into_inner();
        if let Some(header) = &mut stale.header {
            header.revision = older;
        }
        Ok(stale)
    }
}
