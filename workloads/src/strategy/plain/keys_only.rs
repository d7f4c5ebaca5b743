//! `keys-only`: one Range with `keys_only`, for clients that only need to know which keys exist.
//! etcd reads whole objects and omits the values. Bytes and throughput count what was received.

use super::{EtcdList, EtcdResponse, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "keys-only",
    request: ListRequest::Etcd(EtcdList {
        response: EtcdResponse::Buffered,
        keys_only: true,
    }),
    rank: 9,
};
