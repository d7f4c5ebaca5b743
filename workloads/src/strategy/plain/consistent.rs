//! `consistent`: resourceVersion unset. Served from the watch cache once that is proven fresh,
//! KEP-2340.

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
