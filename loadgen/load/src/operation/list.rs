//! The strategies: each one way to list everything, behind one small trait that one driver runs.
//!
//! To add one: its name in [`workloads::Strategy`] (`NAMES`, `Display`, `FromStr`, `runs_on`, `shape`); a file here with a
//! [`Lister`]; a line in [`Row::connect`], and what can be said about it in `run/availability/target.rs` of `loadgen`. Rows
//! with options, thresholds and loads beside a row then work for it as for every other. What is no list of everything, or
//! needs another rhythm than rounds, is a [`workloads::Shape`] of its own with a driver in `run/case/` of `loadgen`.

mod chunk;
mod error;
mod go_client;
pub(crate) mod kube;
mod lister;
mod no_lists;
mod paged;
pub mod restart;
mod row;
mod whole;

use etcd_api::client::Client;
use etcd_api::client::raw_list::ListRpc;
use workloads::strategy::{Strategy, Tier};

use crate::endpoint::Reach;
pub use error::{ListError, MOST_RESTARTS};
pub use kube::asks::{Asks, Part};
pub use kube::stored_bytes::{Restore, Stored};
pub use lister::{ClientCost, Lister};
pub use row::Row;

impl Row {
    /// A client for this row, connected.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached.
    pub async fn connect(&self, to: &Reach) -> Result<Box<dyn Lister>, ListError> {
        if let Strategy::GoClient(client) = self.strategy {
            return Ok(Box::new(go_client::connect(client, self, to).await?));
        }
        let client = match (&to.etcd, self.tier) {
            (Some(config), Tier::Etcd) => Client::connect(config.clone()).await?,
            _ if self.strategy == Strategy::NoLists => return Ok(Box::new(no_lists::NoLists)),
            _ => return kube::connect(self, to).await,
        };
        let raw = client.raw().await?;
        Ok(match self.strategy {
            Strategy::Stream => {
                Box::new(whole::Whole::new(raw, ListRpc::RangeStream, &self.prefix))
            }
            Strategy::NoLists => Box::new(no_lists::NoLists),
            Strategy::Paged(size) => Box::new(paged::Paged::new(raw, &self.prefix, size.get())),
            _ => Box::new(whole::Whole::new(raw, ListRpc::Range, &self.prefix)),
        })
    }
}
