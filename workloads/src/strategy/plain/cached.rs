//! `cached`: `resourceVersion=0`, the current state of the watch cache.

use super::{KubeList, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "cached",
    request: ListRequest::Kube(KubeList {
        query: "resourceVersion=0",
        is_watch: false,
        may_go_back: true,
    }),
    rank: 4,
};
