//! `consistent`: resourceVersion unset. From the cache, once it is proven fresh: KEP-2340.

use super::{KubeList, ListRequest, ListSpec};

pub(super) const LIST: ListSpec = ListSpec {
    name: "consistent",
    request: ListRequest::Kube(KubeList {
        query: "",
        is_watch: false,
        may_go_back: false,
    }),
    rank: 7,
};
