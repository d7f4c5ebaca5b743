//! A client of a Kubernetes API: one connection, what it takes to be let in, and the file that
//! kubectl reads.
//!
//! - [`access`]: what it takes to be let in: certificates and tokens
//! - [`config`]: the file that kubectl reads
//! - [`connection`]: one connection of HTTP/1.1 or HTTP/2, plain or TLS
//! - [`body`]: a response's bytes, unzipped, no faster than the reader wants

pub mod access;
pub mod body;
pub mod config;
pub mod connection;
mod error;

pub use access::KubeAccess;
pub use body::{Body, whole};
pub use connection::{Connection, HttpVersion, Options, accepted};
pub use error::KubeError;
