//! Two real kube-apiservers, one over bench-server's etcd tier and one over etcd 3.7.3, with the
//! same history: the responses of an apiserver must not depend on its etcd.
//!
//! Everything is written through the first server. Its writes are then copied revision by revision,
//! so that every key has the same revisions and the same bytes in both etcds. The second server's
//! own writes at its start are copied back. Once both run, a second round of changes is written and
//! copied in the same way; both caches receive these as events.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::request_op::Request as Op;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
    WatchCreateRequest, WatchRequest,
};
use etcd_api::proto::mvccpb::Event;
use etcd_api::proto::mvccpb::event::EventType;
use futures::StreamExt as _;

use crate::apiserver::Apiserver;
use crate::case::World;
use crate::data;
use crate::known_differences::{KnownDifference, OLDEST_REVISION};
use crate::lists::collections;
use crate::peer::{Peer, Server};

/// Time without writes after which an etcd is considered at rest.
const REST: Duration = Duration::from_secs(3);
/// Maximum time until a written event arrives.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum number of rounds of copies from one etcd to the other.
const COPIES: usize = 10;
/// Time to live of copied leases, which is longer than any case.
const LEASE_SECONDS: i64 = 36_000;

/// Differences that depend on the process or the time, not on the etcd.
pub(crate) const KNOWN_DIFFERENCES: &[KnownDifference] = &[OLDEST_REVISION];

/// The second apiserver and both etcds. The first apiserver is a field of the [`World`].
pub(crate) struct Second {
    pub(crate) server: Apiserver,
    _etcds: [Server; 2],
}

/// Starts both apiservers over etcds with the same content.
///
/// # Errors
/// A message if a server does not start, or if the etcds do not become equal.
pub(crate) async fn start() -> Result<World, String> {
    let etcds = [
        Server::start(Peer::Bench, &[])?,
        Server::start(Peer::Etcd, &[])?,
    ];
    let [bench, etcd] = [&etcds[0], &etcds[1]].map(|etcd| etcd.url.clone());
    let [from, to] = [client(&bench).await?, client(&etcd).await?];
    for i in 0..10_u8 {
        put(&from, [b"/before/", &[i][..]].concat()).await?;
    }
    let writer = Apiserver::start(&bench).await?;
    let mut data = data::write(&writer).await;
    // The writer's cache began with its own writes. The cache of a server that starts now begins at
    // the same revision as the other's.
    let real = writer.start_again().await?;
    at_rest(&from).await?;
    copy(&from, &to, 1).await?;
    let second = real.another(&etcd).await?;
    make_equal(&from, &to).await?;
    for server in [&real, &second] {
        for collection in collections() {
            data::until_found(server, &collection).await;
        }
    }
    data.watched = data::change_all(&real, 1).await;
    make_equal(&from, &to).await?;
    have_the_same_history(&from, &to).await?;
    let second = Second {
        server: second,
        _etcds: etcds,
    };
    Ok(World::of_two(second, real, data))
}

/// Copies the missing revisions from one etcd to the other until both are at rest at the same
/// revision.
async fn make_equal(bench: &Client, etcd: &Client) -> Result<(), String> {
    let mut revisions = [0; 2];
    for _ in 0..COPIES {
        revisions = [at_rest(bench).await?, at_rest(etcd).await?];
        match revisions {
            [ours, theirs] if ours < theirs => copy(etcd, bench, ours).await?,
            [ours, theirs] if theirs < ours => copy(bench, etcd, theirs).await?,
            _ => return Ok(()),
        }
    }
    Err(format!("both go on writing: revisions {revisions:?}"))
}

/// Checks that every event is the same in both etcds: keys, values, revisions, versions and leases.
async fn have_the_same_history(bench: &Client, etcd: &Client) -> Result<(), String> {
    let until = revision(bench).await?;
    let (ours, theirs) = (history(bench, 0, until), history(etcd, 0, until));
    let (ours, theirs) = (ours.await?, theirs.await?);
    let different = (1..=until).find(|revision| ours.get(revision) != theirs.get(revision));
    match different {
        Some(revision) => Err(format!(
            "revision {revision} differs: {:?} in the bench server, {:?} in etcd",
            ours.get(&revision),
            theirs.get(&revision)
        )),
        None => Ok(()),
    }
}

async fn client(url: &str) -> Result<Client, String> {
    let config = ClientConfig::new(url).map_err(|error| error.to_string())?;
    Client::connect(config)
        .await
        .map_err(|error| error.to_string())
}

async fn put(client: &Client, key: Vec<u8>) -> Result<(), String> {
    let request = PutRequest {
        key: key.into(),
        value: "x".into(),
        ..PutRequest::default()
    };
    let done = client.kv().put(request).await;
    done.map(drop).map_err(|error| error.to_string())
}

async fn revision(client: &Client) -> Result<i64, String> {
    let request = RangeRequest {
        key: "/".into(),
        ..RangeRequest::default()
    };
    let found = client.kv().range(request).await;
    let found = found.map_err(|error| error.to_string())?.into_inner();
    Ok(found.header.map_or(0, |header| header.revision))
}

/// Waits until nothing is written for [`REST`]; returns the revision.
async fn at_rest(client: &Client) -> Result<i64, String> {
    let mut last = revision(client).await?;
    for _ in 0..20 {
        tokio::time::sleep(REST).await;
        let now = revision(client).await?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
    Err(format!("it goes on writing: revision {last}"))
}

/// Writes the revisions of one etcd after `after` to another one that is at `after`.
async fn copy(from: &Client, to: &Client, after: i64) -> Result<(), String> {
    let until = revision(from).await?;
    for (revision, events) in history(from, after, until).await? {
        let mut operations = Vec::new();
        for event in events {
            let kv = event.kv.ok_or("an event without its key")?;
            let is_delete = event.r#type == EventType::Delete as i32;
            if !is_delete && kv.lease != 0 {
                let lease = LeaseGrantRequest {
                    ttl: LEASE_SECONDS,
                    id: kv.lease,
                };
                // The first of several keys with the same lease grants it.
                to.lease().lease_grant(lease).await.ok();
            }
            let request = match is_delete {
                true => Op::RequestDeleteRange(DeleteRangeRequest {
                    key: kv.key,
                    ..DeleteRangeRequest::default()
                }),
                false => Op::RequestPut(PutRequest {
                    key: kv.key,
                    value: kv.value,
                    lease: kv.lease,
                    ..PutRequest::default()
                }),
            };
            operations.push(RequestOp {
                request: Some(request),
            });
        }
        let transaction = TxnRequest {
            success: operations,
            ..TxnRequest::default()
        };
        let done = to.kv().txn(transaction).await;
        let header = done.map_err(|error| error.to_string())?.into_inner().header;
        let written = header.map_or(0, |header| header.revision);
        if written != revision {
            return Err(format!("revision {revision} was copied as {written}"));
        }
    }
    Ok(())
}

/// Returns the events after revision `after`, up to `until`, by revision.
async fn history(of: &Client, after: i64, until: i64) -> Result<BTreeMap<i64, Vec<Event>>, String> {
    let create = WatchCreateRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        start_revision: after + 1,
        ..WatchCreateRequest::default()
    };
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    let requests = futures::stream::iter([request]).chain(futures::stream::pending());
    let stream = of.watch().watch(requests).await;
    let mut stream = stream.map_err(|error| error.to_string())?.into_inner();
    let mut history: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
    while after < until
        && history
            .last_key_value()
            .is_none_or(|(last, _)| *last < until)
    {
        let next = tokio::time::timeout(SILENCE, stream.message()).await;
        let next = next.map_err(|_| format!("no event up to revision {until} for {SILENCE:?}"))?;
        let response = next.map_err(|error| error.to_string())?;
        let response = response.ok_or("the watch ended")?;
        if response.canceled {
            return Err(format!("the watch ended: {}", response.cancel_reason));
        }
        for event in response.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            history.entry(revision).or_default().push(event);
        }
    }
    Ok(history)
}
