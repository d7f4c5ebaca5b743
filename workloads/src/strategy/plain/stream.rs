//! `stream`: RangeStream, KEP-5966.

use super::{EtcdList, EtcdResponse, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "stream",
    request: ListRequest::Etcd(EtcdList {
        response: EtcdResponse::Stream,
        keys_only: false,
    }),
    rank: 3,
};
