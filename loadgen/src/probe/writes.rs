//! Rules that write, below a prefix of the probe's own: one history of a few keys, which
//! [`super::watches`] watches afterwards.

use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::kubernetes::{
    DeleteOptions, GetOptions, GetResponse, KubernetesEtcd as _, OptimisticResponse, PutOptions,
};
use etcd_api::proto::etcdserverpb::range_request::SortOrder;
use etcd_api::proto::etcdserverpb::request_op::Request as Op;
use etcd_api::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseRevokeRequest, PutRequest, RangeRequest, RequestOp, ResponseHeader,
    TxnRequest,
};
use etcd_api::proto::mvccpb::KeyValue;

use super::rules::*;
use super::{Observation, Probe, judged};
use crate::timeouts::in_time;

/// The TTL of the lease, in seconds; it is revoked earlier.
const LEASE_TTL_S: i64 = 60;
/// The ID of a lease that does not exist.
const NONEXISTENT_LEASE: i64 = 1;
/// The successive values of the key `a`.
pub(super) const FIRST: &[u8] = b"first";
pub(super) const SECOND: &[u8] = b"second";

/// The revisions of the history; 0 for a step that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct History {
    /// The creation of `a`.
    pub(super) created: i64,
    /// The change of `a`.
    pub(super) updated: i64,
    /// The two puts of `p`.
    pub(super) puts: [i64; 2],
    /// The Txn that put `b` and `c`.
    pub(super) both: i64,
    /// The deletion of `a`.
    pub(super) deleted: i64,
    /// The put of `d` with a lease.
    pub(super) leased: i64,
    /// The latest revision after the lease was revoked: that of the deletion of `d`.
    pub(super) revoked: i64,
}

/// Tries these rules, in the order of the history.
///
/// # Errors
/// The error with which the endpoint was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<History, Error> {
    let mut history = History::default();
    let checked = create(probe, &mut history).await;
    if probe.note(&TXN_CREATE, checked)? {
        let checked = conflict(probe, &history, false).await;
        probe.note(&TXN_CONFLICT, checked)?;
        let checked = conflict(probe, &history, true).await;
        probe.note(&GET_ON_FAILURE, checked)?;
        let checked = update(probe, &mut history).await;
        if probe.note(&TXN_UPDATE, checked)? {
            let checked = stale(probe, &history).await;
            probe.note(&TXN_STALE, checked)?;
            let checked = past(probe, &history).await;
            probe.note(&PAST_STATE, checked)?;
        }
    }
    let checked = put_prev_kv(probe, &mut history).await;
    probe.note(&PUT_PREV_KV, checked)?;
    let checked = both(probe, &mut history).await;
    probe.note(&TXN_ONE_REVISION, checked)?;
    let checked = duplicate(probe).await;
    probe.note(&TXN_DUPLICATE, checked)?;
    let checked = exact_count(probe).await;
    probe.note(&EXACT_COUNT, checked)?;
    let checked = sort(probe).await;
    probe.note(&SORT, checked)?;
    if history.updated > 0 {
        let checked = delete(probe, &mut history).await;
        probe.note(&TXN_DELETE, checked)?;
    }
    let checked = unknown_lease(probe).await;
    probe.note(&LEASE_UNKNOWN, checked)?;
    let mut lease = 0;
    let checked = attach(probe, &mut history, &mut lease).await;
    if probe.note(&LEASE_ATTACH, checked)? {
        let checked = revoke(probe, &mut history, lease).await;
        probe.note(&LEASE_REVOKE, checked)?;
    }
    Ok(history)
}

impl Probe {
    async fn get(&self, name: &str, revision: i64) -> Result<GetResponse, Error> {
        let options = GetOptions { revision };
        let key = self.key(name);
        in_time(self.storage.get(&key, options)).await
    }

    async fn put_if(
        &self,
        value: &'static [u8],
        revision: i64,
        get_on_failure: bool,
    ) -> Result<OptimisticResponse, Error> {
        let options = PutOptions {
            get_on_failure,
            lease_id: 0,
        };
        let key = self.key("a");
        let value = Bytes::from_static(value);
        in_time(self.storage.optimistic_put(&key, value, revision, options)).await
    }

    async fn put(&self, request: PutRequest) -> Result<(i64, Option<KeyValue>), Error> {
        let put = in_time(self.client.kv().put(request)).await?.into_inner();
        Ok((revision(put.header.as_ref()), put.prev_kv))
    }

    /// Puts two keys unconditionally in one Txn; returns its revision.
    async fn put_all(&self, names: [&str; 2]) -> Result<i64, Error> {
        let puts = names.map(|name| RequestOp {
            request: Some(Op::RequestPut(PutRequest {
                key: self.key(name),
                value: Bytes::from_static(FIRST),
                ..PutRequest::default()
            })),
        });
        let request = TxnRequest {
            success: puts.into(),
            ..TxnRequest::default()
        };
        let done = in_time(self.client.kv().txn(request)).await?.into_inner();
        Ok(revision(done.header.as_ref()))
    }
}

async fn create(probe: &Probe, history: &mut History) -> Result<Observation, Error> {
    let done = probe.put_if(FIRST, 0, false).await?;
    let now = probe.get("a", 0).await?.kv;
    let at = done.revision;
    let holds = done.succeeded
        && now.as_ref().is_some_and(|kv| {
            (kv.version, kv.create_revision, kv.mod_revision) == (1, at, at) && kv.value == FIRST
        });
    if holds {
        history.created = at;
    }
    let succeeded = done.succeeded;
    Ok(judged(
        holds,
        format!(
            "succeeded {succeeded} at revision {at}; {}",
            shown(now.as_ref())
        ),
    ))
}

async fn conflict(probe: &Probe, history: &History, wants_key: bool) -> Result<Observation, Error> {
    let done = probe.put_if(SECOND, 0, wants_key).await?;
    let now = probe.get("a", 0).await?.kv;
    let is_kept = now
        .as_ref()
        .is_some_and(|kv| kv.mod_revision == history.created);
    let succeeded = done.succeeded;
    Ok(match wants_key {
        false => judged(
            !succeeded && is_kept,
            format!("succeeded {succeeded}; {}", shown(now.as_ref())),
        ),
        true => judged(
            !succeeded && done.kv.is_some() && done.kv == now,
            format!("succeeded {succeeded}; with {}", shown(done.kv.as_ref())),
        ),
    })
}

async fn update(probe: &Probe, history: &mut History) -> Result<Observation, Error> {
    let done = probe.put_if(SECOND, history.created, false).await?;
    let now = probe.get("a", 0).await?.kv;
    let at = done.revision;
    let holds = done.succeeded
        && at > history.created
        && now.as_ref().is_some_and(|kv| {
            (kv.version, kv.create_revision, kv.mod_revision) == (2, history.created, at)
        });
    if holds {
        history.updated = at;
    }
    let succeeded = done.succeeded;
    Ok(judged(
        holds,
        format!(
            "succeeded {succeeded} at revision {at}; {}",
            shown(now.as_ref())
        ),
    ))
}

async fn stale(probe: &Probe, history: &History) -> Result<Observation, Error> {
    let done = probe.put_if(FIRST, history.created, true).await?;
    let kv = done.kv.as_ref();
    let is_kept = kv.is_some_and(|kv| kv.mod_revision == history.updated);
    let succeeded = done.succeeded;
    Ok(judged(
        !succeeded && is_kept,
        format!("succeeded {succeeded}; with {}", shown(kv)),
    ))
}

async fn past(probe: &Probe, history: &History) -> Result<Observation, Error> {
    let then = probe.get("a", history.created).await?.kv;
    let holds = then.as_ref().is_some_and(|kv| kv.value == FIRST);
    Ok(judged(holds, shown(then.as_ref())))
}

async fn put_prev_kv(probe: &Probe, history: &mut History) -> Result<Observation, Error> {
    let put = |value: &'static [u8], prev_kv| PutRequest {
        key: probe.key("p"),
        value: Bytes::from_static(value),
        prev_kv,
        ..PutRequest::default()
    };
    let (first, _) = probe.put(put(FIRST, false)).await?;
    let (second, prev) = probe.put(put(SECOND, true)).await?;
    history.puts = [first, second];
    let holds = prev
        .as_ref()
        .is_some_and(|kv| kv.value == FIRST && kv.mod_revision == first);
    Ok(judged(holds, format!("prev_kv: {}", shown(prev.as_ref()))))
}

async fn both(probe: &Probe, history: &mut History) -> Result<Observation, Error> {
    let at = probe.put_all(["b", "c"]).await?;
    let b = probe.get("b", 0).await?.kv;
    let c = probe.get("c", 0).await?.kv;
    let of = |kv: &Option<KeyValue>| kv.as_ref().map_or(0, |kv| kv.mod_revision);
    history.both = at;
    Ok(judged(
        (of(&b), of(&c)) == (at, at),
        format!("revision {at}; b at {}, c at {}", of(&b), of(&c)),
    ))
}

async fn duplicate(probe: &Probe) -> Result<Observation, Error> {
    match probe.put_all(["e", "e"]).await {
        Err(Error::Refused(refusal)) => {
            Ok(judged(refusal == Refusal::DuplicateKey, refusal.text()))
        }
        Err(other) => Err(other),
        Ok(at) => Ok(judged(false, format!("it was done, at revision {at}"))),
    }
}

/// Checks counts of the keys that [`Probe::seed_keys`] wrote, which nothing else changes.
async fn exact_count(probe: &Probe) -> Result<Observation, Error> {
    let prefix = probe.key("read/");
    let counted = RangeRequest {
        key: prefix.clone(),
        range_end: prefix_end(&prefix).into(),
        count_only: true,
        ..RangeRequest::default()
    };
    let limited = RangeRequest {
        count_only: false,
        limit: 1,
        ..counted.clone()
    };
    let counted = probe.range(counted).await?.count;
    let limited = probe.range(limited).await?.count;
    let there = super::SEEDED_KEYS as i64;
    Ok(judged(
        (counted, limited) == (there, there),
        format!("count {counted}, with a limit {limited}, of {there} keys"),
    ))
}

async fn sort(probe: &Probe) -> Result<Observation, Error> {
    let request = RangeRequest {
        key: probe.key("b"),
        range_end: probe.key("d"),
        sort_order: SortOrder::Descend.into(),
        ..RangeRequest::default()
    };
    let kvs = probe.range(request).await?.kvs;
    let name = |kv: &KeyValue| String::from_utf8_lossy(&kv.key[probe.prefix.len()..]).into_owned();
    let names: Vec<_> = kvs.iter().map(name).collect();
    Ok(judged(names == ["c", "b"], names.join(", ")))
}

async fn delete(probe: &Probe, history: &mut History) -> Result<Observation, Error> {
    let options = DeleteOptions::default();
    let key = probe.key("a");
    let deleted = probe
        .storage
        .optimistic_delete(&key, history.updated, options);
    let done = in_time(deleted).await?;
    let now = probe.get("a", 0).await?.kv;
    let holds = done.succeeded && now.is_none() && done.revision > history.updated;
    if holds {
        history.deleted = done.revision;
    }
    Ok(judged(
        holds,
        format!(
            "succeeded {} at revision {}; {}",
            done.succeeded,
            done.revision,
            shown(now.as_ref())
        ),
    ))
}

async fn unknown_lease(probe: &Probe) -> Result<Observation, Error> {
    let put = PutRequest {
        key: probe.key("f"),
        lease: NONEXISTENT_LEASE,
        ..PutRequest::default()
    };
    match probe.put(put).await {
        Err(Error::Refused(refusal)) => {
            Ok(judged(refusal == Refusal::LeaseNotFound, refusal.text()))
        }
        Err(other) => Err(other),
        Ok((at, _)) => Ok(judged(false, format!("it was done, at revision {at}"))),
    }
}

async fn attach(
    probe: &Probe,
    history: &mut History,
    lease: &mut i64,
) -> Result<Observation, Error> {
    let grant = LeaseGrantRequest {
        ttl: LEASE_TTL_S,
        id: 0,
    };
    let granted = in_time(probe.client.lease().lease_grant(grant)).await?;
    *lease = granted.get_ref().id;
    let put = PutRequest {
        key: probe.key("d"),
        value: Bytes::from_static(FIRST),
        lease: *lease,
        ..PutRequest::default()
    };
    let (at, _) = probe.put(put).await?;
    let now = probe.get("d", 0).await?.kv;
    history.leased = at;
    let holds = *lease != 0 && now.as_ref().is_some_and(|kv| kv.lease == *lease);
    let bound = now.as_ref().map_or(0, |kv| kv.lease);
    Ok(judged(holds, format!("lease {lease}; d has lease {bound}")))
}

async fn revoke(probe: &Probe, history: &mut History, lease: i64) -> Result<Observation, Error> {
    let revoke = LeaseRevokeRequest { id: lease };
    in_time(probe.client.lease().lease_revoke(revoke)).await?;
    let now = probe.get("d", 0).await?;
    let holds = now.kv.is_none();
    if holds {
        history.revoked = now.revision;
    }
    Ok(judged(holds, shown(now.kv.as_ref())))
}

/// Formats a key for the report.
fn shown(kv: Option<&KeyValue>) -> String {
    match kv {
        None => "no key".to_owned(),
        Some(kv) => format!(
            "`{}`, version {}, created at {}, changed at {}",
            kv.value.escape_ascii(),
            kv.version,
            kv.create_revision,
            kv.mod_revision
        ),
    }
}

fn revision(header: Option<&ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}
