//! The ways in which a list can fail.

use std::io;
use std::time::Duration;

use etcd_api::error::{Error as EtcdError, Refusal};
use http::StatusCode;
use kube_api::client::KubeError;
use measure::ProcessError;
use workloads::{Strategy, Tier};

use crate::clients::program::ProgramError;
use crate::clients::thread::ThreadError;
use crate::record::Class;
use crate::verify::InvalidResponse;

/// How often one list is restarted when the history that it reads from has been compacted.
pub const MAX_RESTARTS: u32 = 3;

/// Phrases with which apiservers refuse a field selector that a resource does not support. There
/// are two because fields can be registered in two ways.
const NOT_SELECTABLE: [&str; 2] = ["field label", "is not a known field selector"];

/// The failure of a list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The call failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The Kubernetes API failed.
    #[error(transparent)]
    Kube(KubeError),
    /// The Kubernetes API cannot be reached, or the connection to it broke.
    #[error("{0}")]
    Unreachable(String),
    /// The Kubernetes API defers requests or fails (429, 5xx): it is overloaded.
    #[error("{0}")]
    Overloaded(String),
    /// The Kubernetes API no longer keeps the history that the list is read from (410).
    #[error("410 Expired: {0}")]
    Expired(String),
    /// In every attempt, the history that the list reads from was compacted before its end.
    #[error(
        "the list takes longer than history is kept: begun again {MAX_RESTARTS} times, and then: {last}"
    )]
    HistoryTooShort {
        /// The message of the last attempt.
        last: String,
    },
    /// The Kubernetes API ended its response early.
    #[error("body: cut off after {bytes} bytes: {reason}")]
    CutOff {
        /// The number of bytes received.
        bytes: u64,
        /// How the response ended.
        reason: String,
    },
    /// The response is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidResponse),
    /// The client is an external program, and returned no result.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The client is an external program that is missing.
    #[error("{0}")]
    NoProgram(String),
    /// The client is an external program whose memory and CPU cannot be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The client's thread failed.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// The strategy needs an API that the target does not have.
    #[error("`{strategy}` needs an endpoint of the {tier} tier, and the target has none")]
    NoEndpoint {
        /// The strategy.
        strategy: Strategy,
        /// The tier.
        tier: Tier,
    },
    /// The client does not support the operation, for this reason.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The revision that all clients were to list is compacted.
    #[error("revision {0}, which all clients list, was compacted")]
    PinnedCompacted(i64),
    /// The connection to the baseline's socket failed.
    #[error("socket of the baseline: {0}")]
    BaselineSocket(#[source] io::Error),
    /// The baseline had another length.
    #[error("the baseline sent {found} bytes of {expected}")]
    BaselineBytes {
        /// The expected length.
        expected: u64,
        /// The length received.
        found: u64,
    },
    /// A list has no `metadata.shardInfo` although a shard was requested: the server sent
    /// everything.
    #[error(
        "its lists have no metadata.shardInfo: the server does not shard, and whole lists are no shards"
    )]
    NotSharded,
    /// The field selector has a field that the resource cannot be selected by.
    #[error("{0}")]
    NotSelectable(String),
    /// The strategy does not list everything, or does so only on another tier.
    #[error("`{strategy}` lists nothing on the {tier} tier")]
    ListsNothing {
        /// The strategy.
        strategy: Strategy,
        /// The tier.
        tier: Tier,
    },
    /// The response did not end within the time allowed.
    #[error("the response did not end within {} s", .0.as_secs())]
    Slow(Duration),
}

impl ListError {
    /// Returns the class of the error, which says what it means for the target.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Etcd(error) => Class::of_etcd(error),
            Self::Unreachable(_) => Class::Disconnected,
            Self::Slow(_) => Class::TimedOut,
            _ => Class::Wrong,
        }
    }

    /// Returns whether the history that the list reads from was compacted, so that the list may be
    /// restarted.
    #[must_use]
    pub fn is_compacted(&self) -> bool {
        matches!(
            self,
            Self::Etcd(EtcdError::Refused(Refusal::Compacted))
                | Self::Expired(_)
                | Self::Invalid(InvalidResponse::Expired(_))
        )
    }
}

impl From<KubeError> for ListError {
    fn from(error: KubeError) -> Self {
        match error {
            KubeError::CutOff { bytes, reason } => Self::CutOff { bytes, reason },
            KubeError::Connection { .. } => Self::Unreachable(error.to_string()),
            KubeError::Refused { status, text, .. } if status == StatusCode::GONE => {
                Self::Expired(text)
            }
            KubeError::Refused { status, .. }
                if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() =>
            {
                Self::Overloaded(error.to_string())
            }
            KubeError::Refused {
                status, ref text, ..
            } if status == StatusCode::BAD_REQUEST
                && NOT_SELECTABLE.iter().any(|t| text.contains(t)) =>
            {
                Self::NotSelectable(error.to_string())
            }
            other => Self::Kube(other),
        }
    }
}
