//! A client that sends one request at a time and records the responses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::etcdserverpb::kv_client::KvClient;
use etcd_api::proto::etcdserverpb::lease_client::LeaseClient;
use history::{
    Call, Change, Lease, Nanoseconds, OpResponse, Operation, Outcome, RangeRequest, TxnResponse,
};
use prost::Message;
use tonic::Status;
use tonic::transport::Channel;

use crate::convert;
use crate::lies::Liar;
use crate::random_requests::{Ask, Chooser, EXPIRER, REVOKER, everything, one};
use crate::run::Shared;

/// Time after which a client abandons a request, whose outcome is then unknown.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Time to live of leases that do not expire within a run.
const LEASE_SECONDS: i64 = 3_600;
/// Time to live of leases that expire: the shortest that etcd grants.
const SHORT_LEASE_SECONDS: i64 = 2;
/// The lowest ID of leases that expire; the IDs of other leases are small.
const FIRST_SHORT_LEASE: i64 = 1_000_000;
/// Pause after a request of unknown outcome, so that there are few of them while a server is
/// unreachable.
const PAUSE: Duration = Duration::from_millis(20);

/// The record of one client.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) operations: Vec<Operation>,
    /// The client's leases that expire.
    pub(crate) leases: Vec<Lease>,
}

pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    number: u32,
    chooser: Chooser,
    liar: Liar,
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    pub(crate) recorded: Recorded,
}

/// Sends requests until the run's time is over; returns their record.
pub(crate) async fn run(shared: Arc<Shared>, number: u32, seed: u64) -> Recorded {
    let mut client = Client::new(shared, number, seed);
    if number == REVOKER {
        client.grant().await;
    }
    while !client.shared.is_over() {
        if number == EXPIRER && client.needs_short_lease() {
            client.grant_short().await;
        }
        let ask = client.chooser.choose();
        let revokes = matches!(ask, Ask::Revoke(_));
        client.perform(ask).await;
        if revokes {
            client.grant().await;
        }
    }
    client.recorded
}

/// Reads everything; returns the operation, and its revision if it was served.
pub(crate) async fn read_all(shared: Arc<Shared>, number: u32) -> (Operation, Option<i64>) {
    let mut client = Client::new(shared, number, 0);
    let everything = RangeRequest {
        range: everything(),
        ..RangeRequest::default()
    };
    client.perform(Ask::Range(everything)).await;
    let operation = client.recorded.operations.pop();
    let operation = operation.expect("it was recorded");
    let revision = match &operation.call {
        Call::Range(_, Outcome::Done(response)) => Some(response.revision),
        _ => None,
    };
    (operation, revision)
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>, number: u32, seed: u64) -> Self {
        let channel = shared.channel(number);
        Self {
            chooser: Chooser::new(shared.clone(), number, seed),
            liar: Liar::new(shared.lie),
            kv: KvClient::new(channel.clone()),
            lease: LeaseClient::new(channel),
            shared,
            number,
            recorded: Recorded::default(),
        }
    }

    /// Grants the next lease, which outlives the run and which later puts use. A grant changes no
    /// key, so it is not part of the history.
    async fn grant(&mut self) {
        let id = self.shared.lease.load(Ordering::Relaxed) + 1;
        let grant = pb::LeaseGrantRequest {
            id,
            ttl: LEASE_SECONDS,
        };
        let granted = tokio::time::timeout(TIMEOUT, self.lease.lease_grant(grant)).await;
        // A lease that already exists may have been granted by a request that timed out.
        let exists = |status: &Status| status.code() == tonic::Code::FailedPrecondition;
        if granted.is_ok_and(|response| response.as_ref().err().is_none_or(exists)) {
            self.shared.lease.store(id, Ordering::Relaxed);
        }
    }

    /// Returns whether the last of the leases that expire may have expired.
    fn needs_short_lease(&self) -> bool {
        let last = self.recorded.leases.last();
        last.is_none_or(|lease| lease.lives_until < self.shared.now())
    }

    /// Grants the next lease that expires; returns whether that succeeded. Puts use the lease even
    /// after it has expired, when they are refused.
    pub(crate) async fn grant_short(&mut self) -> bool {
        let id =
            FIRST_SHORT_LEASE * (1 + i64::from(self.number)) + self.recorded.leases.len() as i64;
        let grant = pb::LeaseGrantRequest {
            id,
            ttl: SHORT_LEASE_SECONDS,
        };
        let called = self.shared.now();
        let granted = tokio::time::timeout(TIMEOUT, self.lease.lease_grant(grant)).await;
        let granted = granted.ok().and_then(Result::ok);
        // Without a response the lease may exist, but no put uses it.
        let ttl = granted
            .as_ref()
            .map_or(SHORT_LEASE_SECONDS, |response| response.get_ref().ttl);
        let ttl = Duration::from_secs(u64::try_from(ttl).expect("a time to live"));
        let lives = u64::try_from(ttl.as_nanos()).expect("a short time");
        self.recorded.leases.push(Lease {
            id,
            lives_until: called + lives,
        });
        if granted.is_some() {
            self.shared.short_lease.store(id, Ordering::Relaxed);
        }
        granted.is_some()
    }

    /// Revokes a lease without recording it.
    pub(crate) async fn revoke_in_secret(&mut self, id: i64) {
        let revoke = pb::LeaseRevokeRequest { id };
        self.lease.lease_revoke(revoke).await.ok();
    }

    pub(crate) async fn perform(&mut self, ask: Ask) {
        let called = self.shared.now();
        let mut settled = None;
        let sent = self.send(&ask, &mut settled);
        let call = match tokio::time::timeout(TIMEOUT, sent).await {
            Ok(call) => call,
            Err(_) => match ask {
                Ask::Range(request) => Call::Range(request, Outcome::Unknown),
                Ask::Compact(revision) => Call::Compact(revision, Outcome::Unknown),
                write => Call::Txn(write.into_txn(), Outcome::Unknown),
            },
        };
        let returned = self.shared.now();
        self.chooser.learn(&call);
        let is_unknown = matches!(
            call,
            Call::Txn(_, Outcome::Unknown)
                | Call::Range(_, Outcome::Unknown)
                | Call::Compact(_, Outcome::Unknown)
        );
        self.recorded.operations.push(Operation {
            client: self.number,
            called,
            settled: settled.unwrap_or(returned),
            returned,
            call,
        });
        if is_unknown {
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn send(&mut self, ask: &Ask, settled: &mut Option<Nanoseconds>) -> Call {
        let newest = self.shared.newest.load(Ordering::Relaxed);
        match ask {
            Ask::Put(key, value, lease) => {
                let request = convert::put(key, value, *lease);
                let result = self.liar.put(&mut self.kv, newest, request).await;
                let txn = one(Change::Put(key.clone(), value.clone(), *lease));
                Call::Txn(
                    txn,
                    outcome(result, |put| {
                        single(put.header.as_ref(), convert::put_response(put))
                    }),
                )
            }
            Ask::Delete(range) => {
                let result = self.kv.delete_range(convert::delete(range)).await;
                let result = result.map(tonic::Response::into_inner);
                let txn = one(Change::Delete(range.clone()));
                Call::Txn(
                    txn,
                    outcome(result, |delete| {
                        single(delete.header.as_ref(), convert::delete_response(delete))
                    }),
                )
            }
            Ask::Revoke(id) => {
                let request = pb::LeaseRevokeRequest { id: *id };
                let result = self.lease.lease_revoke(request).await;
                let result = result.map(tonic::Response::into_inner);
                Call::Txn(
                    one(Change::Revoke(*id)),
                    outcome(result, |revoked| {
                        single(revoked.header.as_ref(), OpResponse::Revoke)
                    }),
                )
            }
            Ask::Txn(txn) => {
                let result = self.kv.txn(convert::txn(txn)).await;
                let result = result.map(tonic::Response::into_inner);
                Call::Txn(txn.clone(), outcome(result, convert::txn_response))
            }
            Ask::Range(request) => {
                let sent = convert::range_request(request);
                let result = match request.stream {
                    true => self.stream(sent, settled).await,
                    false => self.liar.range(&mut self.kv, sent).await,
                };
                Call::Range(request.clone(), outcome(result, convert::range_response))
            }
            Ask::Compact(revision) => {
                let request = pb::CompactionRequest {
                    revision: *revision,
                    physical: false,
                };
                let result = self.kv.compact(request).await;
                let result = result.map(tonic::Response::into_inner);
                Call::Compact(
                    *revision,
                    outcome(result, |done| convert::revision(done.header.as_ref())),
                )
            }
        }
    }

    /// Reads a stream to its end, merged as protobuf does.
    async fn stream(
        &mut self,
        request: pb::RangeRequest,
        settled: &mut Option<Nanoseconds>,
    ) -> Result<pb::RangeResponse, Status> {
        let mut messages = self.kv.range_stream(request).await?.into_inner();
        let mut merged = pb::RangeResponse::default();
        while let Some(message) = messages.message().await? {
            settled.get_or_insert_with(|| self.shared.now());
            let part = message.range_response.unwrap_or_default();
            let merge = merged.merge(&part.encode_to_vec()[..]);
            merge.expect("an encoded message decodes");
        }
        Ok(merged)
    }
}

fn single(header: Option<&pb::ResponseHeader>, response: OpResponse) -> TxnResponse {
    TxnResponse {
        revision: convert::revision(header),
        succeeded: true,
        responses: vec![response],
    }
}

fn outcome<R, T>(result: Result<R, Status>, convert: impl FnOnce(&R) -> T) -> Outcome<T> {
    match result {
        Ok(response) => Outcome::Done(convert(&response)),
        Err(status) => convert::refused(&status),
    }
}
