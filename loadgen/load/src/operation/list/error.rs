//! How a list fails.

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

/// How often one list is begun again, when what it was being read from has been compacted.
pub const MOST_RESTARTS: u32 = 3;

/// What an apiserver says of a field that lists of a resource cannot be selected by, in its ways of
/// registering fields.
const NOT_SELECTABLE: [&str; 2] = ["field label", "is not a known field selector"];

/// How a list failed.
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
    /// The Kubernetes API puts requests off, or fails (429, 5xx): it has more to do than it can.
    #[error("{0}")]
    Overloaded(String),
    /// The Kubernetes API no longer keeps what the list is read from (410).
    #[error("410 Expired: {0}")]
    Expired(String),
    /// Each time that it was begun, what it was read from was compacted before its end.
    #[error(
        "the list takes longer than history is kept: begun again {MOST_RESTARTS} times, and then: {last}"
    )]
    HistoryTooShort {
        /// What was said the last time.
        last: String,
    },
    /// The Kubernetes API ended its answer before its end.
    #[error("body: cut off after {bytes} bytes: {reason}")]
    CutOff {
        /// Bytes of it that came.
        bytes: u64,
        /// How it ended.
        reason: String,
    },
    /// The answer is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidResponse),
    /// The client is a program of its own, and gave no answer.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The client is a program that is not there.
    #[error("{0}")]
    NoProgram(String),
    /// The client is a program whose memory and CPU cannot be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The client's thread came to nothing.
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
    /// The client was asked for something that it does not do, for this reason.
    #[error("{0}")]
    Unsupported(&'static str),
    /// All clients were to list one revision, which is no longer kept.
    #[error("revision {0}, which all clients list, was compacted")]
    PinnedCompacted(i64),
    /// The connection to the baseline's socket failed.
    #[error("socket of the baseline: {0}")]
    BaselineSocket(#[source] io::Error),
    /// A baseline of another length.
    #[error("the baseline sent {found} bytes of {expected}")]
    BaselineBytes {
        /// Its length.
        expected: u64,
        /// Received.
        found: u64,
    },
    /// A list without `metadata.shardInfo` although a shard was asked for: the server sent
    /// everything.
    #[error(
        "its lists have no metadata.shardInfo: the server does not shard, and whole lists are no shards"
    )]
    NotSharded,
    /// A field selector with a field that the resource cannot be selected by.
    #[error("{0}")]
    NotSelectable(String),
    /// A strategy that does something else than list everything, or not on this tier.
    #[error("`{strategy}` lists nothing on the {tier} tier")]
    ListsNothing {
        /// The strategy.
        strategy: Strategy,
        /// The tier.
        tier: Tier,
    },
    /// No end within the time allowed.
    #[error("the response did not end within {} s", .0.as_secs())]
    Slow(Duration),
}

impl ListError {
    /// Returns what it says of the target.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Etcd(error) => Class::of_etcd(error),
            Self::Unreachable(_) => Class::Disconnected,
            Self::Slow(_) => Class::Unanswered,
            _ => Class::Wrong,
        }
    }

    /// Returns whether what the list was read from was compacted, so that it may be begun again.
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
