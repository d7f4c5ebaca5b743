//! The etcd tier: etcd v3's gRPC services over the store, one file per service.
//!
//! [`server`] starts the tier on [`listen`]'s workers. [`service`] dispatches requests: [`kv`]
//! serves the measured calls ([`range`] and [`range_stream`] are its reads), tonic's routes serve
//! the other services, and [`http`] serves the plain HTTP paths on the same port.

pub mod auth;
pub mod background;
mod call_checks;
pub mod cluster;
pub mod data_dir;
pub mod flags;
pub mod frames;
pub mod health_grpc;
mod health_http;
pub mod http;
pub mod kv;
pub mod lease;
#[cfg(test)]
mod logged_tests;
mod long_work;
pub mod maintenance;
pub mod metrics;
mod overload;
pub mod range;
pub mod range_stream;
mod response_estimate;
pub mod server;
pub mod service;
pub mod watch;

use std::time::Duration;

use etcd_api::proto::etcdserverpb::ResponseHeader;
use listen::flags::CommonFlags;
use listen::response_bytes;
use memory::admission::Admission;
use store::Store;

use self::flags::{EmulatedVersion, EtcdFlags, RangeEncoding};

/// Bytes of a request that gRPC accepts beyond `--max-request-bytes` (etcd: 512 KiB of overhead).
pub const GRPC_OVERHEAD_BYTES: usize = 512 * 1024;

/// A single-member cluster: the store, and the state that every service needs.
pub struct Node {
    /// The store.
    pub store: Store,
    /// Constant, non-zero.
    pub cluster_id: u64,
    /// Constant, non-zero.
    pub member_id: u64,
    /// Constant, at least 2, as after a first election.
    pub raft_term: u64,
    /// `--name`.
    pub name: String,
    /// Client URLs in the member list.
    pub client_urls: Vec<String>,
    /// `--max-request-bytes`.
    pub max_request_bytes: usize,
    /// `--range-encoding`.
    pub range_encoding: RangeEncoding,
    /// `--emulate-version`.
    pub version: EmulatedVersion,
    /// `--watch-progress-notify-interval`.
    pub progress_notify_interval: Duration,
    /// Memory limit of responses that are buffered whole.
    pub admission: Admission,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("client_urls", &self.client_urls)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Returns a node of `store` with these client URLs.
    pub fn new(
        store: Store,
        flags: &EtcdFlags,
        common: &CommonFlags,
        client_urls: Vec<String>,
    ) -> Self {
        Self {
            store,
            cluster_id: 0xbe5c_0000_0000_0001,
            member_id: 0xbe5c_0000_0000_0101,
            raft_term: 2,
            name: flags.name.clone(),
            client_urls,
            max_request_bytes: flags.max_request_bytes,
            range_encoding: flags.range_encoding,
            version: flags.emulate_version,
            progress_notify_interval: flags.watch_progress_notify_interval,
            admission: Admission::new(response_bytes(common)),
        }
    }

    /// Returns the maximum size of a request's message, bytes.
    pub fn max_message_bytes(&self) -> usize {
        self.max_request_bytes + GRPC_OVERHEAD_BYTES
    }

    /// Returns a response header at `revision`.
    pub fn header(&self, revision: i64) -> ResponseHeader {
        ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision,
            raft_term: self.raft_term,
        }
    }
}
