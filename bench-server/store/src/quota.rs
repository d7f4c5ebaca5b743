//! The size of the store, its quota, and alarms.

use std::collections::BTreeSet;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{AlarmType, PutRequest, RequestOp, TxnRequest};

use super::wal::Change;
use super::{Store, Writer};

/// etcd's default quota: 2 GiB.
const DEFAULT_QUOTA: i64 = 2 * 1024 * 1024 * 1024;
/// etcd's estimate of a put's size without key and value, bytes.
const PUT_OVERHEAD: u64 = 256;
/// etcd's estimate of a lease's size, bytes.
pub(super) const LEASE_COST: u64 = 64;
/// Size reported for an empty store, bytes: that of the file of an empty etcd. Clients take 0 for
/// "unknown".
const EMPTY_SIZE: u64 = 20 * 1024;

/// A quota that is exceeded, and the size of the store, in bytes.
struct Excess {
    quota: u64,
    stored: u64,
}

/// The raised alarms.
#[derive(Default)]
pub(super) struct Alarms(BTreeSet<AlarmType>);

pub(super) fn put_cost(request: &PutRequest) -> u64 {
    PUT_OVERHEAD + request.key.len() as u64 + request.value.len() as u64
}

/// Returns the cost of the more expensive branch, with nested transactions (etcd ≥ 3.7.1).
pub(super) fn txn_cost(request: &TxnRequest) -> u64 {
    fn branch(ops: &[RequestOp]) -> u64 {
        let cost = |op: &RequestOp| match &op.request {
            Some(Request::RequestPut(put)) => put_cost(put),
            Some(Request::RequestTxn(txn)) => txn_cost(txn),
            _ => 0,
        };
        ops.iter().map(cost).sum()
    }
    branch(&request.success).max(branch(&request.failure))
}

impl Store {
    /// Returns the encoded size, in bytes, of the stored keys and values and of the history that is
    /// not compacted. Compaction frees memory, so there is nothing to defragment.
    pub fn size_bytes(&self) -> u64 {
        let state = self.inner.state.read();
        EMPTY_SIZE + state.tree().weight() + state.history_bytes()
    }

    /// Returns the quota, bytes; `None` for no limit.
    pub fn quota_bytes(&self) -> Option<u64> {
        u64::try_from(self.reported_quota()).ok()
    }

    /// Returns the reported quota: the default if none is set; a negative number (no limit) is
    /// returned unchanged.
    pub fn reported_quota(&self) -> i64 {
        match self.inner.config.quota_backend_bytes {
            0 => DEFAULT_QUOTA,
            quota => quota,
        }
    }

    /// Returns the raised alarms in order.
    pub fn alarms(&self) -> Vec<AlarmType> {
        let writer = self.inner.writer.lock();
        writer.alarms.0.iter().copied().collect()
    }

    /// Raises an alarm; returns whether it was not raised before.
    pub fn raise_alarm(&self, alarm: AlarmType) -> bool {
        let mut writer = self.inner.writer.lock();
        self.raise(&mut writer, alarm)
    }

    /// Clears an alarm; returns whether it was raised.
    pub fn clear_alarm(&self, alarm: AlarmType) -> bool {
        let mut writer = self.inner.writer.lock();
        let cleared = writer.alarms.0.remove(&alarm);
        if cleared {
            self.note(&mut writer, Change::AlarmCleared(alarm));
        }
        cleared
    }

    fn raise(&self, writer: &mut Writer, alarm: AlarmType) -> bool {
        let raised = writer.alarms.0.insert(alarm);
        if raised {
            self.note(writer, Change::AlarmRaised(alarm));
        }
        raised
    }

    /// Returns an error unless `cost` more bytes fit, and raises the NOSPACE alarm then. As in etcd
    /// (`quotaKVServer`), this comes before all other checks of a request, and does not look at the
    /// alarm.
    pub(super) fn check_quota(&self, cost: u64) -> Result<(), Refusal> {
        match self.exceeded_by(cost) {
            Some(excess) => Err(self.refuse(&mut self.inner.writer.lock(), excess)),
            None => Ok(()),
        }
    }

    /// Returns an error if the NOSPACE alarm is raised, or unless `cost` more bytes fit, and raises
    /// the alarm then. Deletes cost nothing and succeed.
    pub(super) fn reserve(&self, writer: &mut Writer, cost: u64) -> Result<(), Refusal> {
        if cost == 0 {
            return Ok(());
        }
        if writer.alarms.0.contains(&AlarmType::Nospace) {
            return Err(Refusal::NoSpace);
        }
        match self.exceeded_by(cost) {
            Some(excess) => Err(self.refuse(writer, excess)),
            None => Ok(()),
        }
    }

    /// Returns the quota and the stored bytes, if `cost` more bytes do not fit.
    fn exceeded_by(&self, cost: u64) -> Option<Excess> {
        let quota = self.quota_bytes().filter(|_| cost > 0)?;
        let stored = self.size_bytes();
        (stored + cost >= quota).then_some(Excess { quota, stored })
    }

    fn refuse(&self, writer: &mut Writer, excess: Excess) -> Refusal {
        // Logged once, not for each rejected write.
        if self.raise(writer, AlarmType::Nospace) {
            let Excess { quota, stored } = excess;
            tracing::warn!(
                "quota of {quota} bytes reached ({stored} bytes stored): NOSPACE raised, writes are refused until it is \
                 disarmed"
            );
        }
        Refusal::NoSpace
    }
}

impl Alarms {
    pub(super) fn is_corrupt(&self) -> bool {
        self.0.contains(&AlarmType::Corrupt)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = AlarmType> {
        self.0.iter().copied()
    }
}

impl From<BTreeSet<AlarmType>> for Alarms {
    fn from(raised: BTreeSet<AlarmType>) -> Self {
        Self(raised)
    }
}
