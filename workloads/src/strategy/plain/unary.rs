//! `unary`: one Range, whose response the server builds before it sends any of it. kube-apiserver
//! sends this request to etcd when it lists without a limit.

use super::{EtcdList, EtcdResponse, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "unary",
    request: ListRequest::Etcd(EtcdList {
        response: EtcdResponse::Buffered,
        keys_only: false,
    }),
    rank: 11,
};
