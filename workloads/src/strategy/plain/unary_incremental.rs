//! `unary-incremental`: the same Range and the same bytes as `unary`, sent while the server reads
//! the objects.

use super::{EtcdList, EtcdResponse, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "unary-incremental",
    request: ListRequest::Etcd(EtcdList {
        response: EtcdResponse::Incremental,
        keys_only: false,
    }),
    rank: 10,
};
