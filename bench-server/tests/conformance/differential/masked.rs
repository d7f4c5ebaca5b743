//! Blanks the fields of responses that are specific to each server.

use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeResponse, LeaseGrantResponse, LeaseLeasesResponse, LeaseRevokeResponse,
    LeaseTimeToLiveResponse, PutResponse, RangeResponse, ResponseHeader, TxnResponse,
};

/// A response that can be compared between two servers.
pub(super) trait Masked {
    /// Blanks the fields that are specific to the server (IDs of cluster and member, the term), and
    /// sorts fields whose order has no meaning.
    fn mask(&mut self);

    /// Returns the store's revision in the response's header, or 0 without a header.
    fn revision(&self) -> i64;
}

fn mask_header(header: &mut Option<ResponseHeader>) {
    if let Some(header) = header {
        (header.cluster_id, header.member_id, header.raft_term) = (0, 0, 0);
    }
}

macro_rules! masked {
    ($($answer:ident $(, $more:expr)?);* $(;)?) => {
        $(impl Masked for $answer {
            fn mask(&mut self) {
                mask_header(&mut self.header);
                $(($more)(self);)?
            }

            fn revision(&self) -> i64 {
                self.header.map_or(0, |header| header.revision)
            }
        })*
    };
}
masked! {
    RangeResponse;
    PutResponse;
    DeleteRangeResponse;
    TxnResponse, mask_operations;
    LeaseGrantResponse;
    LeaseRevokeResponse;
    LeaseLeasesResponse, |answer: &mut LeaseLeasesResponse| answer.leases.sort_by_key(|lease| lease.id);
    LeaseTimeToLiveResponse, mask_lease;
}

/// A response that is only a revision.
impl Masked for i64 {
    fn mask(&mut self) {}

    fn revision(&self) -> i64 {
        *self
    }
}

fn mask_operations(answer: &mut TxnResponse) {
    for operation in &mut answer.responses {
        match &mut operation.response {
            Some(Response::ResponseRange(range)) => range.mask(),
            Some(Response::ResponsePut(put)) => put.mask(),
            Some(Response::ResponseDeleteRange(delete)) => delete.mask(),
            Some(Response::ResponseTxn(txn)) => txn.mask(),
            None => {}
        }
    }
}

/// Time passes between the two responses, and the keys are in the order of a map.
fn mask_lease(answer: &mut LeaseTimeToLiveResponse) {
    answer.ttl = answer.ttl.min(1);
    answer.keys.sort();
}
