//! The strategies for listing everything, behind one small trait that one driver runs.
//!
//! `CONTRIBUTING.md` describes under "A strategy" what a new strategy needs. One that needs more
//! than other requests has a file here with a [`ListClient`], and a line in
//! [`ListCase::connect_etcd`] or [`ListCase::connect_kube`]. Options, thresholds and concurrent
//! loads then work for it as for every other strategy.

pub mod attempts;
mod chunk;
mod error;
mod go_client;
pub(crate) mod kube;
mod list_case;
mod list_client;
mod no_lists;
mod object_times;
mod paged;
mod whole;

use etcd_api::client::Client;
use workloads::strategy::{Strategy, Tier};

use self::kube::client::Exchange;
use self::no_lists::NoLists;
use self::paged::Paged;
use self::whole::Whole;
pub use crate::clients::thread::ThreadError;
use crate::endpoint::TargetEndpoint;
pub use error::{ListError, MAX_RESTARTS};
pub use kube::list_parameters::{ListParameters, ShardRequest};
pub use kube::stored_bytes::{DecodedObject, ItemDecoder};
pub use list_case::ListCase;
pub use list_client::{ClientCost, ListClient};
pub use object_times::ObjectTimes;

impl ListCase {
    /// Connects a client for this case.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached, or the strategy lists nothing on this tier.
    pub async fn connect(&self, to: &TargetEndpoint) -> Result<Box<dyn ListClient>, ListError> {
        match self.tier {
            Tier::Etcd => self.connect_etcd(to).await,
            Tier::Kube => self.connect_kube(to).await,
        }
    }

    async fn connect_etcd(&self, to: &TargetEndpoint) -> Result<Box<dyn ListClient>, ListError> {
        let raw = async || {
            let config = to.etcd.clone();
            let config = config.ok_or_else(|| self.no_endpoint(Tier::Etcd))?;
            Ok::<_, ListError>(Client::connect(config).await?.raw().await?)
        };
        Ok(match self.strategy {
            Strategy::Plain(list) => {
                let list = list.etcd().ok_or_else(|| self.lists_nothing())?;
                Box::new(Whole::new(raw().await?, list, &self.prefix))
            }
            Strategy::Paged(size) => Box::new(Paged::new(raw().await?, &self.prefix, size.get())),
            Strategy::NoLists => Box::new(NoLists),
            Strategy::GoClient(client) => Box::new(go_client::connect(client, self, to).await?),
            Strategy::Get
            | Strategy::Put
            | Strategy::FanOut
            | Strategy::Watch
            | Strategy::Exact
            | Strategy::Selector(_)
            | Strategy::ReadYourWrite
            | Strategy::Sharded(_)
            | Strategy::ClientFiltered(_)
            | Strategy::WatchSharded(_)
            | Strategy::WatchClientFiltered(_)
            | Strategy::NoWatches
            | Strategy::Loads => return Err(self.lists_nothing()),
        })
    }

    async fn connect_kube(&self, to: &TargetEndpoint) -> Result<Box<dyn ListClient>, ListError> {
        let (exchange, query) = match self.strategy {
            Strategy::Plain(list) => {
                let list = list.kube().ok_or_else(|| self.lists_nothing())?;
                let exchange = match list.is_watch {
                    true => Exchange::State,
                    false => Exchange::Whole,
                };
                (exchange, list.query.to_owned())
            }
            Strategy::Exact
            | Strategy::Selector(_)
            | Strategy::ReadYourWrite
            | Strategy::Sharded(_)
            | Strategy::ClientFiltered(_) => (Exchange::Whole, String::new()),
            Strategy::Paged(size) => (Exchange::Pages, format!("limit={size}")),
            Strategy::NoLists => return Ok(Box::new(NoLists)),
            Strategy::GoClient(client) => {
                return Ok(Box::new(go_client::connect(client, self, to).await?));
            }
            Strategy::Get
            | Strategy::Put
            | Strategy::FanOut
            | Strategy::Watch
            | Strategy::WatchSharded(_)
            | Strategy::WatchClientFiltered(_)
            | Strategy::NoWatches
            | Strategy::Loads => return Err(self.lists_nothing()),
        };
        kube::connect(self, to, exchange, query).await
    }

    /// Returns the error of a case whose target has no API of this tier.
    fn no_endpoint(&self, tier: Tier) -> ListError {
        ListError::NoEndpoint {
            strategy: self.strategy,
            tier,
        }
    }

    fn lists_nothing(&self) -> ListError {
        ListError::ListsNothing {
            strategy: self.strategy,
            tier: self.tier,
        }
    }
}
