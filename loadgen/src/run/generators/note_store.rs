//! Where generators meet: notes on the target, by name, which every generator can read.
//!
//! Every note but that of the first generator is written on condition that the first one's is
//! there, in one atomic step: whoever comes when the first has removed them all leaves nothing
//! behind.
//!
//! - [`keys`]: on an etcd, a key for each note and a Txn for each write
//! - [`lease`]: on a Kubernetes API, one Lease object with an annotation for each note

mod keys;
mod lease;

use bytes::Bytes;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use kube_api::client::KubeError;

use crate::seed::kube::Api;
use keys::{KeyQuestions, Keys};
use lease::{LeaseQuestions, NoteLease};

/// The note of the first generator, which is there for as long as the rendezvous.
pub(super) const FIRST: &str = "generator/0";
/// Questions to the first generator, by number of the generator that asks.
pub(super) const ASKED: &str = "clock/asked/";

/// Why notes could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(in crate::run) enum NoteStoreError {
    /// An etcd failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// A Kubernetes API failed.
    #[error(transparent)]
    Kube(#[from] KubeError),
}

/// Where a rendezvous is to be: nothing is connected yet.
#[derive(Debug, Clone)]
pub(in crate::run) enum NoteStoreAddress {
    /// Keys below a prefix that are nobody else's.
    Etcd {
        /// How to connect.
        config: ClientConfig,
        /// With a slash at its end.
        prefix: String,
    },
    /// A Lease in a namespace of the run, which the first generator makes.
    Kube {
        /// The API.
        api: Api,
        /// The namespace.
        namespace: String,
    },
}

/// A rendezvous place, connected. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum NoteStore {
    Etcd(Keys),
    Kube(NoteLease),
}

impl NoteStoreAddress {
    /// Connects.
    ///
    /// # Errors
    /// [`NoteStoreError`] when the endpoint cannot be reached, or does not answer.
    pub(super) async fn connect(&self) -> Result<NoteStore, NoteStoreError> {
        Ok(match self {
            Self::Etcd { config, prefix } => NoteStore::Etcd(Keys::connect(config, prefix).await?),
            Self::Kube { api, namespace } => NoteStore::Kube(NoteLease::new(api, namespace)),
        })
    }
}

impl NoteStore {
    /// Returns a note; `None` where there is none of this name.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Bytes>, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.get(name).await?,
            Self::Kube(lease) => lease.get(name).await?,
        })
    }

    /// Returns which of so many numbers have no note `WHAT/NUMBER`.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn without(&self, what: &str, count: u32) -> Result<Vec<u32>, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.without(what, count).await?,
            Self::Kube(lease) => lease.without(what, count).await?,
        })
    }

    /// Writes [`FIRST`], the first note of all; returns false where it is there already.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn open(&self, value: String) -> Result<bool, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.put_if(&[(FIRST, 0)], FIRST, value).await?,
            Self::Kube(lease) => lease.open(value).await?,
        })
    }

    /// Writes a note that is not there yet, while the rendezvous is open; returns false where it is
    /// there, or the rendezvous is not open.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn add(&self, name: &str, value: String) -> Result<bool, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.put_if(&[(FIRST, 1), (name, 0)], name, value).await?,
            Self::Kube(lease) => lease.add(name, value).await?,
        })
    }

    /// Writes a note while the rendezvous is open; returns whether it is.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn put(&self, name: &str, value: String) -> Result<bool, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.put_if(&[(FIRST, 1)], name, value).await?,
            Self::Kube(lease) => lease.put(name, &value).await?,
        })
    }

    /// Removes every note: the rendezvous is no longer open.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn remove_all(&self) -> Result<(), NoteStoreError> {
        match self {
            Self::Etcd(keys) => keys.remove_all().await?,
            Self::Kube(lease) => lease.remove().await?,
        }
        Ok(())
    }

    /// Waits for notes below [`ASKED`] from now on.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn questions(&self) -> Result<Questions, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => Questions::Etcd(Box::new(keys.questions(ASKED).await?)),
            Self::Kube(lease) => Questions::Kube(Box::new(lease.questions(ASKED))),
        })
    }
}

/// Notes below [`ASKED`] as they are written.
pub(super) enum Questions {
    Etcd(Box<KeyQuestions>),
    Kube(Box<LeaseQuestions>),
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    /// Number of the generator that asks.
    pub(super) generator: String,
    /// What it asks.
    pub(super) text: String,
}

impl Questions {
    /// Waits for the next ones.
    ///
    /// # Errors
    /// The target's, after which no more come.
    pub(super) async fn next(&mut self) -> Result<Vec<Question>, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.next().await?,
            Self::Kube(lease) => lease.next().await?,
        })
    }
}
