//! Checks of the request alone, which run before any lock is taken.

use std::collections::{BTreeMap, HashSet};

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

use crate::range::RangePlan;

/// Checks a put for contradictory fields.
///
/// # Errors
/// [`Refusal::EmptyKey`], [`Refusal::ValueProvided`] or [`Refusal::LeaseProvided`].
pub fn put(request: &PutRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        Err(Refusal::EmptyKey)
    } else if request.ignore_value && !request.value.is_empty() {
        Err(Refusal::ValueProvided)
    } else if request.ignore_lease && request.lease != 0 {
        Err(Refusal::LeaseProvided)
    } else {
        Ok(())
    }
}

/// Checks that a delete has a key.
///
/// # Errors
/// [`Refusal::EmptyKey`].
pub fn delete_range(request: &DeleteRangeRequest) -> Result<(), Refusal> {
    match request.key.is_empty() {
        true => Err(Refusal::EmptyKey),
        false => Ok(()),
    }
}

/// Checks the number of operations of a transaction, each operation, and that no key is written
/// twice. Checks both branches, independently of the compares.
///
/// # Errors
/// [`Refusal::TooManyOps`], [`Refusal::EmptyKey`], [`Refusal::DuplicateKey`],
/// [`Refusal::KeyNotFound`] for an operation without a request; for a range those of
/// [`RangePlan::of`].
pub fn txn(request: &TxnRequest, max_ops: usize) -> Result<(), Refusal> {
    well_formed(request, max_ops)?;
    writes_of(&request.success)?;
    writes_of(&request.failure)?;
    Ok(())
}

/// Returns whether the transaction has only ranges and so does not need the writer's lock. A nested
/// transaction counts as a write, as in etcd.
pub fn is_read_only(request: &TxnRequest) -> bool {
    let mut ops = request.success.iter().chain(&request.failure);
    ops.all(|op| matches!(op.request, Some(Request::RequestRange(_))))
}

fn well_formed(request: &TxnRequest, max_ops: usize) -> Result<(), Refusal> {
    let lists = [
        request.compare.len(),
        request.success.len(),
        request.failure.len(),
    ];
    let ops = lists.into_iter().fold(0, usize::max);
    // Operations of this level reduce the limit of the levels below.
    let left = max_ops.checked_sub(ops).ok_or(Refusal::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refusal::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Request::RequestRange(request)) => range(request)?,
            Some(Request::RequestPut(request)) => put(request)?,
            Some(Request::RequestDeleteRange(request)) => delete_range(request)?,
            Some(Request::RequestTxn(request)) => well_formed(request, left)?,
            None => return Err(Refusal::KeyNotFound),
        }
    }
    Ok(())
}

fn range(request: &RangeRequest) -> Result<(), Refusal> {
    RangePlan::of(request).map(|_| ())
}

/// The keys that one branch writes, including those of nested transactions.
#[derive(Default)]
struct Writes<'a> {
    puts: HashSet<&'a [u8]>,
    deletes: IntervalSet<'a>,
}

/// Collects a branch's writes; returns an error for a key that is put twice, or put and deleted.
/// The order of the three passes is etcd's and has visible effects: the deletes of a nested
/// transaction are compared only with later nested ones and this level's puts, and the two branches
/// of a nested transaction may both put a key, or one put and the other delete it.
fn writes_of(ops: &[RequestOp]) -> Result<Writes<'_>, Refusal> {
    let mut writes = Writes::default();
    for op in ops {
        if let Some(Request::RequestDeleteRange(request)) = &op.request {
            writes.deletes.add(&request.key, &request.range_end);
        }
    }
    for op in ops {
        if let Some(Request::RequestTxn(request)) = &op.request {
            let then = writes_of(&request.success)?;
            let other = writes_of(&request.failure)?;
            for key in &then.puts {
                writes.put(key)?;
            }
            for key in other.puts.difference(&then.puts) {
                writes.put(key)?;
            }
            writes.deletes.union(then.deletes);
            writes.deletes.union(other.deletes);
        }
    }
    for op in ops {
        if let Some(Request::RequestPut(request)) = &op.request {
            writes.put(&request.key)?;
        }
    }
    Ok(writes)
}

impl<'a> Writes<'a> {
    fn put(&mut self, key: &'a [u8]) -> Result<(), Refusal> {
        match !self.deletes.contains(key) && self.puts.insert(key) {
            true => Ok(()),
            false => Err(Refusal::DuplicateKey),
        }
    }
}

/// A union of intervals: disjoint `start → end`, where an end of `None` is one key.
#[derive(Default)]
struct IntervalSet<'a> {
    keys: HashSet<&'a [u8]>,
    intervals: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> IntervalSet<'a> {
    fn add(&mut self, key: &'a [u8], range_end: &'a [u8]) {
        match KeyRange::new(key, range_end) {
            KeyRange::One(key) => {
                self.keys.insert(key);
            }
            KeyRange::Between(start, end) => self.insert(start, end),
            // etcd compares the end \0 as a plain byte: below every key, so the interval is empty.
            KeyRange::From(_) => {}
        }
    }

    fn insert(&mut self, mut start: &'a [u8], mut end: &'a [u8]) {
        if start >= end {
            return;
        }
        if let Some((before, reach)) = self.intervals.range(..=start).next_back()
            && *reach >= start
        {
            (start, end) = (before, end.max(reach));
        }
        while let Some((next, reach)) = self.intervals.range(start..=end).next() {
            end = end.max(reach);
            let next = *next;
            self.intervals.remove(next);
        }
        self.intervals.insert(start, end);
    }

    fn union(&mut self, other: Self) {
        self.keys.extend(other.keys);
        for (start, end) in other.intervals {
            self.insert(start, end);
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        let below = || {
            self.intervals
                .range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(key)))
                .next_back()
        };
        self.keys.contains(key) || below().is_some_and(|(_, end)| key < *end)
    }
}
