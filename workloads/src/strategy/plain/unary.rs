//! `unary`: one Range, which the server builds whole before it sends any of it. What kube-apiserver
//! asks an etcd for when it lists without a limit.

use super::{EtcdList, EtcdResponse, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "unary",
    request: ListRequest::Etcd(EtcdList {
        response: EtcdResponse::Buffered,
        keys_only: false,
    }),
    rank: 11,
};
