//! Where generators synchronize: named notes on the target, which every generator can read.
//!
//! Every note except the first generator's is written on condition that the first generator's
//! exists, in one atomic step. A generator that arrives after the first one has removed all notes
//! leaves nothing behind.
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

/// The first generator's note, which exists while the rendezvous is open.
pub(super) const FIRST: &str = "generator/0";
/// The prefix of questions to the first generator, followed by the number of the generator that
/// asks.
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

/// The address of a note store that is not connected yet.
#[derive(Debug, Clone)]
pub(in crate::run) enum NoteStoreAddress {
    /// Keys below a prefix that is not used otherwise.
    Etcd {
        /// The connection settings.
        config: ClientConfig,
        /// The prefix, with a slash at its end.
        prefix: String,
    },
    /// A Lease in a namespace of the run, which the first generator creates.
    Kube {
        /// The API.
        api: Api,
        /// The namespace.
        namespace: String,
    },
}

/// A connected note store. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum NoteStore {
    Etcd(Keys),
    Kube(NoteLease),
}

impl NoteStoreAddress {
    /// Connects.
    ///
    /// # Errors
    /// [`NoteStoreError`] when the endpoint cannot be reached, or does not respond.
    pub(super) async fn connect(&self) -> Result<NoteStore, NoteStoreError> {
        Ok(match self {
            Self::Etcd { config, prefix } => NoteStore::Etcd(Keys::connect(config, prefix).await?),
            Self::Kube { api, namespace } => NoteStore::Kube(NoteLease::new(api, namespace)),
        })
    }
}

impl NoteStore {
    /// Returns a note; `None` if there is none of this name.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Bytes>, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.get(name).await?,
            Self::Kube(lease) => lease.get(name).await?,
        })
    }

    /// Returns the numbers below `count` for which there is no note `WHAT/NUMBER`.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn without(&self, what: &str, count: u32) -> Result<Vec<u32>, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.without(what, count).await?,
            Self::Kube(lease) => lease.without(what, count).await?,
        })
    }

    /// Writes [`FIRST`], the first note of all. Returns false if it exists already.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn open(&self, value: String) -> Result<bool, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.put_if(&[(FIRST, 0)], FIRST, value).await?,
            Self::Kube(lease) => lease.open(value).await?,
        })
    }

    /// Writes a new note while the rendezvous is open. Returns false if the note exists already, or
    /// the rendezvous is not open.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn add(&self, name: &str, value: String) -> Result<bool, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.put_if(&[(FIRST, 1), (name, 0)], name, value).await?,
            Self::Kube(lease) => lease.add(name, value).await?,
        })
    }

    /// Writes a note while the rendezvous is open. Returns whether it is open.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn put(&self, name: &str, value: String) -> Result<bool, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.put_if(&[(FIRST, 1)], name, value).await?,
            Self::Kube(lease) => lease.put(name, &value).await?,
        })
    }

    /// Removes every note, which closes the rendezvous.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn remove_all(&self) -> Result<(), NoteStoreError> {
        match self {
            Self::Etcd(keys) => keys.remove_all().await?,
            Self::Kube(lease) => lease.remove().await?,
        }
        Ok(())
    }

    /// Starts to watch for notes below [`ASKED`] that are written from now on.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn questions(&self) -> Result<Questions, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => Questions::Etcd(Box::new(keys.questions(ASKED).await?)),
            Self::Kube(lease) => Questions::Kube(Box::new(lease.questions(ASKED))),
        })
    }
}

/// A stream of notes below [`ASKED`].
pub(super) enum Questions {
    Etcd(Box<KeyQuestions>),
    Kube(Box<LeaseQuestions>),
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    /// The number of the generator that asks.
    pub(super) generator: String,
    /// The text of the question.
    pub(super) text: String,
}

impl Questions {
    /// Waits for the next questions.
    ///
    /// # Errors
    /// Those of the target, after which there are no more questions.
    pub(super) async fn next(&mut self) -> Result<Vec<Question>, NoteStoreError> {
        Ok(match self {
            Self::Etcd(keys) => keys.next().await?,
            Self::Kube(lease) => lease.next().await?,
        })
    }
}
