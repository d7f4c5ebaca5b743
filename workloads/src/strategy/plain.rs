//! Plain lists: strategies that are described by their requests alone, one file each.
//!
//! Everything else about them follows from the description: their name, their tier, how our server
//! is started for them, what they cost, how the generator asks and what it expects. To add one:
//! a file in `plain/` with its [`ListSpec`], and a line in the table below. Strategies that need
//! more than one kind of request, or a parameter, are variants of [`super::Strategy`].

use super::Tier;

/// What a plain list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListSpec {
    /// Its name in scenario files, `--strategies` and reports.
    pub name: &'static str,
    /// How it asks.
    pub request: ListRequest,
    /// Its place among the strategies when a server with other people's data is measured, the
    /// cheapest for that server first; 0 to 12.
    pub rank: u8,
}

/// How a plain list asks, which tells its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRequest {
    /// One call to an etcd.
    Etcd(EtcdList),
    /// One GET of a Kubernetes API.
    Kube(KubeList),
}

/// A list in one call to an etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtcdList {
    /// The call, and how the server sends its response.
    pub response: EtcdResponse,
    /// Whether only keys are asked for (`keys_only`).
    pub keys_only: bool,
}

/// How an etcd sends everything that is below a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdResponse {
    /// One message of Range, which the server builds before it sends any of it. Our server is
    /// started so; how another does it is its own business.
    Buffered,
    /// One message of Range, sent while it is read. Servers that cannot are N/A.
    Incremental,
    /// The messages of RangeStream. Servers without it are N/A.
    Stream,
}

/// A list by one GET of a Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeList {
    /// The query.
    pub query: &'static str,
    /// Whether the response is a watch that begins with the state, instead of a list.
    pub is_watch: bool,
    /// Whether a list may be older than the one before it, where another server or another cache
    /// responds.
    pub may_go_back: bool,
}

/// Declares the module of each plain list, and the type that names them all.
macro_rules! plain_lists {
    ($($name:ident = $module:ident,)*) => {
        $(mod $module;)*

        /// A plain list, by name. What it is: [`PlainList::spec`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PlainList {
            $(
                #[doc = concat!("See `workloads/src/strategy/plain/", stringify!($module), ".rs`.")]
                $name,
            )*
        }

        impl PlainList {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns what it is.
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
    /// Returns the list with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|list| list.spec().name == name)
    }

    /// Returns the tier that it lists from.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self.spec().request {
            ListRequest::Etcd(_) => Tier::Etcd,
            ListRequest::Kube(_) => Tier::Kube,
        }
    }

    /// Returns how an etcd is asked, if one is.
    #[must_use]
    pub fn etcd(self) -> Option<EtcdList> {
        match self.spec().request {
            ListRequest::Etcd(list) => Some(list),
            ListRequest::Kube(_) => None,
        }
    }

    /// Returns how a Kubernetes API is asked, if one is.
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
