//! `watch-list`: a watch with `sendInitialEvents`, up to the bookmark after the initial state,
//! KEP-3157.

use super::{KubeList, ListRequest, ListSpec};

/// The query of a reflector: the initial state, then a bookmark.
pub const WATCH_LIST_QUERY: &str = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=600";

pub(super) const LIST: ListSpec = ListSpec {
    name: "watch-list",
    request: ListRequest::Kube(KubeList {
        query: WATCH_LIST_QUERY,
        is_watch: true,
        may_go_back: false,
    }),
    rank: 5,
};
