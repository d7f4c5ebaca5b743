//! A client of a Kubernetes API: what lists, seeds and asks are sent through.
//!
//! - [`access`]: what it takes to be let in: certificates and tokens
//! - [`config`]: the file that kubectl reads
//! - [`connection`]: one connection of HTTP/1.1 or HTTP/2, plain or TLS
//! - [`body`]: an answer's bytes, unzipped, no faster than the reader wants

pub mod access;
pub mod body;
pub mod config;
pub mod connection;

pub use access::KubeAccess;
pub use body::{Body, whole};
pub use connection::{Connection, Options, accepted};

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
