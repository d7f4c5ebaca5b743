//! A wrapper between clients and server that breaks one promise, to see that the check notices.

use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::etcdserverpb::kv_client::KvClient;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::convert;

/// What is not true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Some ranges return an older state, with its revision.
    StaleRead,
    /// Some puts are acknowledged and not done.
    LostWrite,
    /// Some watch responses are dropped; none of the log's.
    LostEvent,
    /// A lease expires at once.
    EarlyExpiry,
}

/// One request or response of so many is a lie.
const ONE_IN: u64 = 40;
/// How many revisions a stale read is behind.
const BEHIND: i64 = 20;

/// Decides which requests are lied about: each fortieth of one client.
#[derive(Debug)]
pub(crate) struct Liar {
    lie: Option<Lie>,
    requests: u64,
}

impl Liar {
    pub(crate) fn new(lie: Option<Lie>) -> Self {
        Self { lie, requests: 0 }
    }

    /// Returns whether this request, of which the lie is one, is to be lied about.
    pub(crate) fn lies(&mut self, lie: Lie) -> bool {
        if self.lie != Some(lie) {
            return false;
        }
        self.requests += 1;
        self.requests.is_multiple_of(ONE_IN)
    }

    /// Puts a key, or says so with the revision after the newest known one.
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

    /// Reads a range, or what it was some revisions ago.
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
