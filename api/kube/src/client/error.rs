//! Why a request to a Kubernetes API came to nothing.

/// How a request to a Kubernetes API failed.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// The URL cannot be used.
    #[error("`{url}` {reason}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A certificate, key or token cannot be used.
    #[error("{what}: {reason}")]
    Credentials {
        /// The file, or what it is for.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The connection could not be made, or broke.
    #[error("connection to {host}: {reason}")]
    Connection {
        /// Host and port.
        host: String,
        /// What happened.
        reason: String,
    },
    /// The answer cannot be read.
    #[error("body: {0}")]
    Body(String),
    /// The answer ended before its end.
    #[error("body: cut off after {bytes} bytes: {reason}")]
    CutOff {
        /// Bytes of it that came.
        bytes: u64,
        /// How it ended.
        reason: String,
    },
    /// The server refused.
    #[error("{method} {path}: {status}: {text}")]
    Refused {
        /// The method.
        method: http::Method,
        /// Path and query.
        path: String,
        /// The answer's status.
        status: http::StatusCode,
        /// The beginning of its body.
        text: String,
    },
}
