//! etcd's v3 API, shared by the bench server and the generator.
//!
//! - [`proto`]: generated messages and services (etcd 3.7.3's, trimmed)
//! - [`error`]: etcd's errors with their exact texts
//! - [`keys`]: key intervals and prefix ends
//! - [`kubernetes`]: the Kubernetes-etcd interface (KEP-4743) as a trait
//! - [`pem`]: reads certificates and keys from files
//! - [`client`]: a client of an etcd cluster: services, lists that are validated in place, and an
//!   implementation of that interface

pub mod client;
pub mod error;
pub mod keys;
pub mod kubernetes;
pub mod pem;
pub mod proto;
