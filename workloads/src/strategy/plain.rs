//! Plain lists: strategies that are fully described by one request, one file each.
//!
//! Everything else about a plain list follows from its [`ListSpec`]: its name, its tier, how
//! bench-server is started for it, its cost, the generator's request and the expected response. To
//! add a plain list, add a file in `plain/` with its [`ListSpec`], and a line in the table below.
//! Strategies that need more than one kind of request, or a parameter, are variants of
//! [`super::Strategy`].

use super::Tier;

/// The description of a plain list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListSpec {
    /// The list's name in scenario files, `--strategies` and reports.
    pub name: &'static str,
    /// The list's request.
    pub request: ListRequest,
    /// The position of the list in the order of strategies on a server that already has data: the
    /// cheapest for that server is first. From 0 to 12.
    pub rank: u8,
}

/// The request of a plain list, which determines its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRequest {
    /// One call to an etcd.
    Etcd(EtcdList),
    /// One GET of a Kubernetes API.
    Kube(KubeList),
}

/// A list by one call to etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtcdList {
    /// The call, and how the server sends its response.
    pub response: EtcdResponse,
    /// Whether only keys are requested (`keys_only`).
    pub keys_only: bool,
}

/// How etcd sends all keys below a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdResponse {
    /// One Range response, which the server builds before it sends any of it. bench-server is
    /// started in this mode; other servers may do otherwise.
    Buffered,
    /// One Range response, which the server sends while it reads the objects. Servers that do not
    /// support this are N/A.
    Incremental,
    /// The messages of RangeStream. Servers that do not support it are N/A.
    Stream,
}

/// A list by one GET of a Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeList {
    /// The query of the request's URL.
    pub query: &'static str,
    /// Whether the response is a watch that begins with the state, instead of a list.
    pub is_watch: bool,
    /// Whether a list may be older than the previous one, if another server or another cache
    /// responds.
    pub may_go_back: bool,
}

/// Declares the module of each plain list, and the enum of all plain lists.
macro_rules! plain_lists {
    ($($name:ident = $module:ident,)*) => {
        $(mod $module;)*

        /// A plain list, which [`PlainList::spec`] describes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PlainList {
            $(
                #[doc = concat!("See `workloads/src/strategy/plain/", stringify!($module), ".rs`.")]
                $name,
            )*
        }

        impl PlainList {
            /// All plain lists.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the description of the list.
            #[must_use]
            pub fn spec(self) -> &'static ListSpec {
                match self {
                    $(Self::$name => &$module::LIST,)*
                }
            }
        }
    };
}

pub use watch_list::WATCH_LIST_QUERY;

plain_lists! {
    Unary = unary,
    UnaryIncremental = unary_incremental,
    Stream = stream,
    KeysOnly = keys_only,
    Cached = cached,
    Consistent = consistent,
    WatchList = watch_list,
}

impl PlainList {
    /// Returns the list with this name, if any.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|list| list.spec().name == name)
    }

    /// Returns the tier of the list.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self.spec().request {
            ListRequest::Etcd(_) => Tier::Etcd,
            ListRequest::Kube(_) => Tier::Kube,
        }
    }

    /// Returns the request of a list of the etcd tier.
    #[must_use]
    pub fn etcd(self) -> Option<EtcdList> {
        match self.spec().request {
            ListRequest::Etcd(list) => Some(list),
            ListRequest::Kube(_) => None,
        }
    }

    /// Returns the request of a list of the Kubernetes tier.
    #[must_use]
    pub fn kube(self) -> Option<KubeList> {
        match self.spec().request {
            ListRequest::Kube(list) => Some(list),
            ListRequest::Etcd(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_a_known_rank() {
        for list in PlainList::ALL {
            let ListSpec { name, rank, .. } = list.spec();
            assert_eq!(PlainList::named(name), Some(*list), "{name} is taken");
            assert!(*rank <= 12, "{name}: {rank}");
        }
    }
}
