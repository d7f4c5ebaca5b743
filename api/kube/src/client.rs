//! A client of a Kubernetes API.
//!
//! - [`access`]: credentials (certificates and tokens) as connections use them; [`trust_anchors`]:
//!   which server certificates a client accepts; [`credential_refresh`]: renews credentials that
//!   expire
//! - [`config`]: kubeconfig files; [`exec`]: their credential plugins
//! - [`discovery`]: finds the resource type that a name means
//! - [`connection`]: one connection over HTTP/1.1 or HTTP/2, plain or TLS; [`proxy`]: the proxy
//!   that it goes through
//! - [`body`]: the bytes of a response, decompressed, optionally at the pace of a slow reader

pub mod access;
pub mod body;
pub mod config;
pub mod connection;
mod credential_refresh;
pub mod discovery;
mod error;
pub mod exec;
mod proxy;
mod trust_anchors;

pub use access::KubeAccess;
pub use body::{Body, discard, read_whole};
pub use connection::{Connection, HttpVersion, Options, StreamSender, expect_success};
pub use discovery::{DiscoveryError, discover};
pub use error::KubeError;
