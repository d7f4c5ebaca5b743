//! Lists by Go clients, which run as separate programs: etcd's `clientv3` and Kubernetes'
//! `client-go`.

use std::fmt;
use std::num::NonZeroU32;

use crate::strategy::{PlainList, Strategy, StrategyError, Tier};

/// A Go client and the call by which it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GoClient {
    /// clientv3: `Get` of everything (`clientv3:unary`).
    Unary,
    /// clientv3: `GetStream` of everything (`clientv3:stream`).
    Stream,
    /// clientv3: `Get` with this limit, page by page (`clientv3:paged:N`).
    Paged(NonZeroU32),
    /// client-go: one `List` (`client-go:list`).
    List,
    /// client-go: an informer, from its start until it has synced (`client-go:informer`).
    Informer,
}

impl GoClient {
    /// All names, with `N` for a page size.
    pub const NAMES: [&'static str; 5] = [
        "clientv3:unary",
        "clientv3:stream",
        "clientv3:paged:N",
        "client-go:list",
        "client-go:informer",
    ];

    /// Returns the program's name, as in `scripts/oracle`.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self.tier() {
            Tier::Etcd => "clientv3",
            Tier::Kube => "client-go",
        }
    }

    /// Returns the program's argument that selects this call.
    #[must_use]
    pub fn mode(self) -> String {
        match self {
            Self::Unary => "unary".to_owned(),
            Self::Stream => "stream".to_owned(),
            Self::Paged(size) => format!("paged:{size}"),
            Self::List => "list".to_owned(),
            Self::Informer => "informer".to_owned(),
        }
    }

    /// Returns the tier that the client lists from.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self {
            Self::Unary | Self::Stream | Self::Paged(_) => Tier::Etcd,
            Self::List | Self::Informer => Tier::Kube,
        }
    }

    /// Returns the strategy by which the generator's own client sends the same request.
    #[must_use]
    pub fn same_request(self) -> Strategy {
        match self {
            Self::Unary => Strategy::Plain(PlainList::UnaryIncremental),
            Self::Stream => Strategy::Plain(PlainList::Stream),
            Self::Paged(size) => Strategy::Paged(size),
            Self::List => Strategy::Plain(PlainList::Consistent),
            Self::Informer => Strategy::Plain(PlainList::WatchList),
        }
    }

    /// Parses a name. Returns `None` for a name that is not a Go client's.
    ///
    /// # Errors
    /// [`StrategyError::PageSize`] if the page size is invalid.
    pub(crate) fn parse(name: &str) -> Result<Option<Self>, StrategyError> {
        Ok(Some(match name {
            "clientv3:unary" => Self::Unary,
            "clientv3:stream" => Self::Stream,
            "client-go:list" => Self::List,
            "client-go:informer" => Self::Informer,
            _ => {
                let Some(size) = name.strip_prefix("clientv3:paged:") else {
                    return Ok(None);
                };
                let size = size.parse();
                Self::Paged(size.map_err(|_| StrategyError::PageSize(name.to_owned()))?)
            }
        }))
    }
}

impl fmt::Display for GoClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.program(), self.mode())
    }
}
