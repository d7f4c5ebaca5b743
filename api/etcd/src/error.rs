//! etcd's errors: one code and one exact text each, because clients match the full text.
//!
//! The server turns a [`Refusal`] into a [`tonic::Status`]; the client reads it back from one, so
//! both sides share this table. Texts and codes are etcd 3.7.1's.

use tonic::{Code, Status};

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:ident, $text:literal;)*) => {
        /// A request that etcd refuses, with the code and the text that it is known by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$doc])* #[error($text)] $name,)*
        }

        impl Refusal {
            /// Every refusal, for tests that walk the table.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name,)*];

            /// The gRPC code that goes with it.
            pub fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }

            /// The exact text on the wire.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Reads a status message back; `None` for a text that is not etcd's.
            pub fn from_text(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

refusals! {
    /// Key is empty where one is needed.
    EmptyKey = InvalidArgument, "etcdserver: key is not provided";
    /// `ignore_value`/`ignore_lease` on a missing key, or a txn op with no arm set.
    KeyNotFound = InvalidArgument, "etcdserver: key not found";
    /// `ignore_value` together with a value.
    ValueProvided = InvalidArgument, "etcdserver: value is provided";
    /// `ignore_lease` together with a lease.
    LeaseProvided = InvalidArgument, "etcdserver: lease is provided";
    /// More than `--max-txn-ops` operations.
    TooManyOps = InvalidArgument, "etcdserver: too many operations in txn request";
    /// One key written twice in a txn.
    DuplicateKey = InvalidArgument, "etcdserver: duplicate key given in txn request";
    /// Unknown sort order or target number.
    InvalidSortOption = InvalidArgument, "etcdserver: invalid sort option";
    /// Write request above `--max-request-bytes`.
    RequestTooLarge = InvalidArgument, "etcdserver: request is too large";
    /// `client-api-version` metadata is not UTF-8.
    InvalidClientApiVersion = InvalidArgument, "etcdserver: invalid client api version";
    /// Revision below the compacted one.
    Compacted = OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    /// Revision above the current one.
    FutureRevision = OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    /// TTL above 9,000,000,000 s.
    LeaseTtlTooLarge = OutOfRange, "etcdserver: too large lease TTL";
    /// The NOSPACE alarm is raised.
    NoSpace = ResourceExhausted, "etcdserver: mvcc: database space exceeded";
    /// Too many proposals in flight (the code really is Unknown on the wire).
    TooManyRequests = Unknown, "etcdserver: too many requests";
    /// Lease does not exist.
    LeaseNotFound = NotFound, "etcdserver: requested lease not found";
    /// Lease id is taken.
    LeaseExists = FailedPrecondition, "etcdserver: lease already exists";
    /// Member does not exist.
    MemberNotFound = NotFound, "etcdserver: member not found";
    /// Watch stream ended by the client.
    WatchCanceled = Cancelled, "etcdserver: watch canceled";
    /// Request context cancelled inside the server.
    RequestCanceled = Cancelled, "etcdserver: request canceled";
    /// Deadline passed inside the server.
    DeadlineExceeded = DeadlineExceeded, "etcdserver: context deadline exceeded";
    /// No leader, and the client requires one.
    NoLeader = Unavailable, "etcdserver: no leader";
    /// Leadership moved while the request was in flight.
    LeaderChanged = Unavailable, "etcdserver: leader changed";
    /// Server is stopping.
    Stopped = Unavailable, "etcdserver: server stopped";
    /// Request took longer than the server allows.
    Timeout = Unavailable, "etcdserver: request timed out";
    /// The CORRUPT alarm is raised.
    Corrupt = DataLoss, "etcdserver: corrupt cluster";
    /// Learners refuse most calls.
    NotSupportedForLearner = FailedPrecondition, "etcdserver: rpc not supported for learner";
    /// Wrong user or password.
    AuthFailed = InvalidArgument, "etcdserver: authentication failed, invalid user ID or password";
    /// Auth call while auth is off; clients carry on without a token.
    AuthNotEnabled = FailedPrecondition, "etcdserver: authentication is not enabled";
    /// Auth cannot be switched on without its first user.
    RootUserNotExist = FailedPrecondition, "etcdserver: root user does not exist";
    /// Token unknown or expired.
    InvalidAuthToken = Unauthenticated, "etcdserver: invalid auth token";
    /// Not allowed.
    PermissionDenied = PermissionDenied, "etcdserver: permission denied";
    /// Auth is on and the request names no user.
    UserEmpty = InvalidArgument, "etcdserver: user name is empty";
    /// Auth store changed under the request.
    AuthOldRevision = InvalidArgument, "etcdserver: revision of auth store is old";
    /// RangeStream with a sort order other than by key, ascending.
    StreamSortUnsupported = Unimplemented, "RangeStream does not support custom sort orders";
    /// RangeStream with a min/max revision filter.
    StreamFilterUnsupported = Unimplemented, "RangeStream does not support revision filters";
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Status::new(refusal.code(), refusal.text())
    }
}

/// What a call to an etcd endpoint can end with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The endpoint refused, in etcd's words.
    #[error("{0}")]
    Refused(Refusal),
    /// The endpoint does not know the method (RangeStream before etcd 3.7).
    #[error("not implemented by this endpoint: {0}")]
    Unimplemented(String),
    /// Any other gRPC status.
    #[error("{code:?}: {message}")]
    Status {
        /// gRPC code.
        code: Code,
        /// The server's text.
        message: String,
    },
    /// No connection to any endpoint.
    #[error("cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// The endpoint tried last.
        endpoint: String,
        /// What went wrong.
        reason: String,
    },
    /// The answer broke the protocol (wrong framing, missing header, cut short).
    #[error("protocol violation from the endpoint: {0}")]
    Protocol(String),
    /// The client was set up wrongly (bad URL, unreadable certificate).
    #[error("client configuration: {0}")]
    Config(String),
}

impl Error {
    /// The refusal, when it is one of etcd's own.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            _ => None,
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        match (Refusal::from_text(status.message()), status.code()) {
            (Some(refusal), _) => Self::Refused(refusal),
            (None, Code::Unimplemented) => Self::Unimplemented(status.message().to_owned()),
            // A status of the transport's own making says why only in its sources (a TLS alert, say), and what
            // code it has depends on where in a call the connection was lost: to the caller it is one thing.
            (None, code) => Self::Status {
                code: match (std::error::Error::source(&status), code) {
                    (Some(_), Code::Unknown | Code::Cancelled) => Code::Unavailable,
                    _ => code,
                },
                message: with_sources(&status),
            },
        }
    }
}

/// A status's message and the errors that caused it, where it came from this side of the wire.
fn with_sources(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_lost_in_a_call_makes_the_server_unavailable() {
        let lost = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let status = Status::from_error(Box::new(lost));
        assert_ne!(status.code(), Code::Unavailable, "what tonic makes of it");
        let Error::Status { code, message } = status.into() else {
            panic!("a status stays one");
        };
        assert_eq!(code, Code::Unavailable);
        assert!(message.contains("broken pipe"), "{message}");
        // What a server says about itself is left alone.
        let told = Error::from(Status::cancelled("by the server"));
        assert!(matches!(
            told,
            Error::Status {
                code: Code::Cancelled,
                ..
            }
        ));
    }

    #[test]
    fn every_text_reads_back_as_itself() {
        for &refusal in Refusal::ALL {
            assert_eq!(Refusal::from_text(refusal.text()), Some(refusal));
            let status = Status::from(refusal);
            assert_eq!(Error::from(status).refusal(), Some(refusal));
        }
    }

    #[test]
    fn an_unknown_method_is_told_apart_from_a_refused_stream() {
        let unknown =
            Status::unimplemented("unknown method RangeStream for service etcdserverpb.KV");
        assert!(matches!(Error::from(unknown), Error::Unimplemented(_)));
        let sorted = Status::from(Refusal::StreamSortUnsupported);
        assert!(matches!(Error::from(sorted), Error::Refused(_)));
    }
}
