//! etcd's errors, each with its code and exact text, because clients compare the whole text.
//!
//! The server converts a [`Refusal`] to a [`tonic::Status`] and the client converts it back, so
//! both share this table. Texts and codes are those of etcd 3.7.3.

use tonic::{Code, Status};

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:ident, $text:literal;)*) => {
        /// An error that etcd returns, with its code and text.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$doc])* #[error($text)] $name,)*
        }

        impl Refusal {
            /// Every refusal, for tests that iterate over the table.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name,)*];

            /// Returns the gRPC code.
            pub fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }

            /// Returns the exact text on the wire.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns the refusal with this status message; `None` if the text is not one of
            /// etcd's.
            pub fn from_text(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

refusals! {
    /// The key is empty where one is required.
    EmptyKey = InvalidArgument, "etcdserver: key is not provided";
    /// `ignore_value`/`ignore_lease` on a missing key, or an operation of a txn that is not set.
    KeyNotFound = InvalidArgument, "etcdserver: key not found";
    /// `ignore_value` together with a value.
    ValueProvided = InvalidArgument, "etcdserver: value is provided";
    /// `ignore_lease` together with a lease.
    LeaseProvided = InvalidArgument, "etcdserver: lease is provided";
    /// More than `--max-txn-ops` operations.
    TooManyOps = InvalidArgument, "etcdserver: too many operations in txn request";
    /// The same key written twice in a txn.
    DuplicateKey = InvalidArgument, "etcdserver: duplicate key given in txn request";
    /// Unknown number of a sort order or target.
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
    /// The response of a transaction or deletion exceeds 2 GiB. (etcd executes the request; then
    /// gRPC refuses to send the response, with its size in the text.)
    ResponseTooLarge = ResourceExhausted, "grpc: trying to send message larger than max (2147483647)";
    /// The NOSPACE alarm is raised.
    NoSpace = ResourceExhausted, "etcdserver: mvcc: database space exceeded";
    /// Too many proposals in flight. (On the wire the code is indeed Unknown.)
    TooManyRequests = Unknown, "etcdserver: too many requests";
    /// Lease does not exist.
    LeaseNotFound = NotFound, "etcdserver: requested lease not found";
    /// Lease id already exists.
    LeaseExists = FailedPrecondition, "etcdserver: lease already exists";
    /// Member does not exist.
    MemberNotFound = NotFound, "etcdserver: member not found";
    /// Watch stream ended by the client.
    WatchCanceled = Cancelled, "etcdserver: watch canceled";
    /// Request context cancelled inside the server.
    RequestCanceled = Cancelled, "etcdserver: request canceled";
    /// Deadline passed inside the server.
    DeadlineExceeded = DeadlineExceeded, "etcdserver: context deadline exceeded";
    /// There is no leader, and the client requires one.
    NoLeader = Unavailable, "etcdserver: no leader";
    /// The leader changed while the request was in flight.
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
    /// Authentication is off; clients continue without a token.
    AuthNotEnabled = FailedPrecondition, "etcdserver: authentication is not enabled";
    /// Authentication cannot be enabled without the root user.
    RootUserNotExist = FailedPrecondition, "etcdserver: root user does not exist";
    /// Token unknown or expired.
    InvalidAuthToken = Unauthenticated, "etcdserver: invalid auth token";
    /// Not allowed.
    PermissionDenied = PermissionDenied, "etcdserver: permission denied";
    /// Authentication is on, and the request has no user.
    UserEmpty = InvalidArgument, "etcdserver: user name is empty";
    /// The auth store changed during the request.
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

/// The error of a call to an etcd endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One of etcd's own errors.
    #[error("{0}")]
    Refused(Refusal),
    /// The endpoint does not have the method (RangeStream before etcd 3.7).
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
    /// No endpoint could be connected to.
    #[error("cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// The endpoint tried last.
        endpoint: String,
        /// The cause.
        reason: String,
    },
    /// The response violated the protocol (wrong framing, missing header, truncated).
    #[error("protocol violation from the endpoint: {0}")]
    Protocol(String),
    /// The client is misconfigured (invalid URL, unreadable certificate).
    #[error("client configuration: {0}")]
    Config(String),
    /// Something did not happen in time, by the client's clock.
    #[error("{0}")]
    Timeout(String),
    /// The client itself failed, as when a thread of it ended. The endpoint is not at fault.
    #[error("{0}")]
    Client(String),
}

impl Error {
    /// Returns the refusal, if the error is one of etcd's own.
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
            // If the transport made the status, the reason (such as a TLS alert) is only in its
            // sources, and its code depends on the phase of the call in which the connection was
            // lost. Callers get the same code in all phases.
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

/// Returns the message of a status, with the local errors that caused it.
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
        assert_ne!(status.code(), Code::Unavailable, "tonic's own code");
        let Error::Status { code, message } = status.into() else {
            panic!("a status stays one");
        };
        assert_eq!(code, Code::Unavailable);
        assert!(message.contains("broken pipe"), "{message}");
        // A code that the server sent is preserved.
        let sent = Error::from(Status::cancelled("by the server"));
        assert!(matches!(
            sent,
            Error::Status {
                code: Code::Cancelled,
                ..
            }
        ));
    }

    #[test]
    fn every_text_is_read_back() {
        for &refusal in Refusal::ALL {
            assert_eq!(Refusal::from_text(refusal.text()), Some(refusal));
            let status = Status::from(refusal);
            assert_eq!(Error::from(status).refusal(), Some(refusal));
        }
    }

    #[test]
    fn an_unknown_method_differs_from_a_refused_stream() {
        let unknown =
            Status::unimplemented("unknown method RangeStream for service etcdserverpb.KV");
        assert!(matches!(Error::from(unknown), Error::Unimplemented(_)));
        let sorted = Status::from(Refusal::StreamSortUnsupported);
        assert!(matches!(Error::from(sorted), Error::Refused(_)));
    }
}
