//! `keys-only`: one Range with `keys_only`, as clients use that look for what is there. etcd reads
//! whole objects for it and leaves the values out; bytes and throughput are of what was received.

use super::{EtcdList, EtcdResponse, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "keys-only",
    request: ListRequest::Etcd(EtcdList {
        response: EtcdResponse::Buffered,
        keys_only: true,
    }),
    rank: 9,
};
