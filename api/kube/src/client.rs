//! A client of a Kubernetes API.
//!
//! - [`access`]: credentials: certificates and tokens; [`trust_anchors`]: whom a client believes to
//!   be the API; [`credential_refresh`]: credentials that run out
//! - [`config`]: kubeconfig files; [`exec`]: their credential plugins
//! - [`discovery`]: which resource type a name means
//! - [`connection`]: one connection of HTTP/1.1 or HTTP/2, plain or TLS
//! - [`body`]: the bytes of a response, decompressed, at the pace of a slow reader if wanted

pub mod access;
pub mod body;
pub mod config;
pub mod connection;
mod credential_refresh;
pub mod discovery;
mod error;
pub mod exec;
mod trust_anchors;

pub use access::KubeAccess;
pub use body::{Body, discard, read_whole};
pub use connection::{Connection, HttpVersion, Options, StreamSender, expect_success};
pub use discovery::{DiscoveryError, discover};
pub use error::KubeError;
