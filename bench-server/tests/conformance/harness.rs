//! Cases of the conformance table, their server and connection, and their tests with a name and a
//! time limit.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::auth_client::AuthClient;
use etcd_api::proto::etcdserverpb::cluster_client::ClusterClient;
use etcd_api::proto::etcdserverpb::kv_client::KvClient;
use etcd_api::proto::etcdserverpb::lease_client::LeaseClient;
use etcd_api::proto::etcdserverpb::maintenance_client::MaintenanceClient;
use etcd_api::proto::etcdserverpb::watch_client::WatchClient;
use etcd_api::proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use libtest_mimic::{Failed, Trial};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use test_support::program;

use crate::peer::{Peer, Server};
use crate::request;

/// Time limit of a case, including the start of its server.
const CASE_LIMIT: Duration = Duration::from_secs(90);

/// The peers of a case about the current protocol.
pub(crate) const CURRENT: &[Peer] = &[Peer::Bench, Peer::BenchBuffered, Peer::Etcd];
/// The peers of a case that does not depend on the Range encoding.
pub(crate) const ONE_ENCODING: &[Peer] = &[Peer::Bench, Peer::Etcd];

/// A case of the conformance table.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `file::function`.
    pub(crate) name: &'static str,
    /// The peers that the case runs on.
    pub(crate) on: &'static [Peer],
    /// The program that the case runs: environment variable and name (see
    /// [`test_support::program`]).
    pub(crate) needs: Option<(&'static str, &'static str)>,
    /// Further flags of the server, in etcd's spelling.
    pub(crate) flags: &'static [&'static str],
    pub(crate) run: fn(Target) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Lists a file's cases: `cases![on PEERS; one, two with ["--flag=value"]]`; `needs TOOL` after the
/// peers names a program that all of them run.
macro_rules! cases {
    (on $on:expr, needs $needs:expr; $($case:tt)*) => {
        $crate::harness::cases!(@ $on, Some($needs); $($case)*);
    };
    (on $on:expr; $($case:tt)*) => {
        $crate::harness::cases!(@ $on, None; $($case)*);
    };
    (@ $on:expr, $needs:expr; $($name:ident $(with $flags:expr)?),* $(,)?) => {
        pub(crate) fn cases() -> Vec<$crate::harness::Case> {
            vec![$($crate::harness::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                on: $on,
                needs: $needs,
                flags: { let _flags: &'static [&'static str] = &[]; $(let _flags = &$flags;)? _flags },
                run: |target| Box::pin($name(target)),
            }),*]
        }
    };
}
pub(crate) use cases;

/// Returns the test that runs `case` on `peer`. If the peer or the case's program is missing, the
/// test is ignored; in CI it fails.
pub(crate) fn trial(peer: Peer, case: Case) -> Trial {
    let missing = peer.missing().or_else(|| {
        case.needs
            .and_then(|(variable, name)| program(variable, name).err())
    });
    let name = case.name.trim_start_matches("conformance::");
    let name = format!("{}::{name}", peer.name());
    test_support::trial(name, missing, move || run(peer, case))
}

fn run(peer: Peer, case: Case) -> Result<(), Failed> {
    let server = Server::start(peer, case.flags)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        let channel = Endpoint::from_shared(server.url.clone())?.connect().await?;
        let target = Target {
            peer,
            server,
            channel,
        };
        match tokio::time::timeout(CASE_LIMIT, (case.run)(target)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Failed::from(format!("not finished after {CASE_LIMIT:?}"))),
        }
    })
}

/// A new server and a connection to it. The server is killed when this value is dropped.
pub(crate) struct Target {
    pub(crate) peer: Peer,
    pub(crate) server: Server,
    pub(crate) channel: Channel,
}

impl Target {
    pub(crate) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub(crate) fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    pub(crate) fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub(crate) fn auth(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.kv().range(request).await.map(Response::into_inner)
    }

    pub(crate) async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        self.kv().put(request).await.map(Response::into_inner)
    }

    pub(crate) async fn delete(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Status> {
        self.kv()
            .delete_range(request)
            .await
            .map(Response::into_inner)
    }

    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.kv().txn(request).await.map(Response::into_inner)
    }

    /// Compacts to `revision`; returns the header's revision.
    pub(crate) async fn compact(&self, revision: i64, physical: bool) -> Result<i64, Status> {
        let response = self
            .kv()
            .compact(CompactionRequest { revision, physical })
            .await?;
        Ok(response.into_inner().header.unwrap_or_default().revision)
    }

    /// Puts a key, which must succeed; returns its revision.
    pub(crate) async fn set(&self, key: impl Into<String>, value: impl Into<String>) -> i64 {
        let response = self
            .put(request::put(key.into(), value.into()))
            .await
            .expect("a plain put succeeds");
        response
            .header
            .expect("a put response has a header")
            .revision
    }

    /// Returns all stored keys, in the server's order.
    pub(crate) async fn all_keys(&self) -> Vec<String> {
        let response = self
            .range(request::range("\0", "\0"))
            .await
            .expect("a plain range succeeds");
        keys(&response)
    }

    /// Returns the store's revision.
    pub(crate) async fn revision(&self) -> i64 {
        let response = self
            .range(request::range("\0", ""))
            .await
            .expect("a plain range succeeds");
        response
            .header
            .expect("a range response has a header")
            .revision
    }
}

/// Returns the keys of a response, as text.
pub(crate) fn keys(response: &RangeResponse) -> Vec<String> {
    response
        .kvs
        .iter()
        .map(|kv| String::from_utf8_lossy(&kv.key).into_owned())
        .collect()
}

/// Asserts that a request was refused, with the code and the text that clients compare.
#[track_caller]
pub(crate) fn assert_refused<T>(result: Result<T, Status>, refusal: Refusal) {
    let Err(status) = result else {
        panic!("expected {refusal:?}, but the request succeeded")
    };
    assert_eq!(
        (status.code(), status.message()),
        (refusal.code(), refusal.text()),
        "expected {refusal:?}"
    );
}
