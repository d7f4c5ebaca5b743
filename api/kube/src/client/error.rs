//! Errors of requests to a Kubernetes API.

/// Why a request to a Kubernetes API failed.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// An unusable URL.
    #[error("`{url}` {reason}")]
    Url {
        /// The URL as given.
        url: String,
        /// The reason why it is unusable.
        reason: &'static str,
    },
    /// An unusable certificate, key or token.
    #[error("{what}: {reason}")]
    Credentials {
        /// The file, or the kind of credential.
        what: String,
        /// The reason why it is unusable.
        reason: String,
    },
    /// The connection could not be opened, or broke.
    #[error("connection to {host}: {reason}")]
    Connection {
        /// Host and port.
        host: String,
        /// The cause.
        reason: String,
    },
    /// The body of the response could not be read or decoded.
    #[error("response body: {0}")]
    Body(String),
    /// The response was truncated.
    #[error("response body: cut off after {bytes} bytes: {reason}")]
    CutOff {
        /// Bytes received.
        bytes: u64,
        /// The cause.
        reason: String,
    },
    /// The response did not arrive or end in time, by the client's clock.
    #[error("{0}")]
    Timeout(String),
    /// The client itself failed, or gave up before it sent the request. The server is not at fault.
    #[error("{0}")]
    Client(String),
    /// The server returned an error status.
    #[error("{method} {path}: {status}: {text}")]
    Refused {
        /// The method.
        method: http::Method,
        /// Path and query.
        path: String,
        /// HTTP status.
        status: http::StatusCode,
        /// The message of the response's `Status`, or the beginning of its body.
        text: String,
    },
}
