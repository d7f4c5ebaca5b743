//! Answers without what is each server's own.

use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeResponse, LeaseGrantResponse, LeaseLeasesResponse, LeaseRevokeResponse,
    LeaseTimeToLiveResponse, PutResponse, RangeResponse, ResponseHeader, TxnResponse,
};

/// An answer that two servers can be compared by.
pub(super) trait Masked {
    /// Blanks what is the server's own: ids of cluster and member, the term, an order that says
    /// nothing.
    fn mask(&mut self);

    /// Returns the store's revision that it tells, 0 where it tells none.
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

/// A revision alone.
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

/// Time goes on between the two answers, and the keys are in the order of a map.
fn mask_lease(answer: &mut LeaseTimeToLiveResponse) {
    answer.ttl = answer.ttl.min(1);
    answer.keys.sort();
}
