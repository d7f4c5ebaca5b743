//! Selects the keys of a Range from a snapshot: filters, order, limit, count (etcd's
//! `executeRange`).

use std::cmp::Ordering;

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::proto::etcdserverpb::{RangeRequest, RangeResponse};
use index::Tree;

use super::Record;
use super::record::Projection;
use super::snapshot::Snapshot;

/// The order and filters of a request, which determine how many keys must be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangePlan {
    order: SortOrder,
    target: SortTarget,
    filtered: bool,
}

impl RangePlan {
    /// Reads the request's options.
    ///
    /// # Errors
    /// [`Refusal::EmptyKey`], [`Refusal::InvalidSortOption`] for a number that etcd does not have.
    pub fn of(request: &RangeRequest) -> Result<Self, Refusal> {
        if request.key.is_empty() {
            return Err(Refusal::EmptyKey);
        }
        let order = SortOrder::try_from(request.sort_order);
        let target = SortTarget::try_from(request.sort_target);
        let (Ok(order), Ok(target)) = (order, target) else {
            return Err(Refusal::InvalidSortOption);
        };
        let bounds = [
            request.min_mod_revision,
            request.max_mod_revision,
            request.min_create_revision,
            request.max_create_revision,
        ];
        Ok(Self {
            order,
            target,
            filtered: bounds != [0; 4],
        })
    }

    /// Returns whether a min/max revision filter is set.
    pub fn is_filtered(self) -> bool {
        self.filtered
    }

    /// Returns whether keys are read in ascending key order: no order is requested, or ascending
    /// order by key. With no order and a target other than the key, the limited result is sorted
    /// afterwards.
    pub fn fetches_in_key_order(self) -> bool {
        self.order == SortOrder::None
            || (self.order == SortOrder::Ascend && self.target == SortTarget::Key)
    }

    /// Returns the number of keys to read to return at most `limit` (0: all) of the `count` keys of
    /// an interval.
    pub fn keys_to_read(self, count: u64, limit: i64) -> u64 {
        match u64::try_from(limit) {
            Ok(1..) if self.filtered || !self.fetches_in_key_order() => count,
            Ok(limit @ 1..) => count.min(limit.saturating_add(1)),
            _ => count,
        }
    }

    /// Returns whether the result is a contiguous range of the index, cut at the limit, without
    /// filters and sorting. Such a result can be sent while it is read.
    pub fn is_plain(self) -> bool {
        !self.filtered && self.fetches_in_key_order() && self.target == SortTarget::Key
    }
}

/// The result of a Range, not yet encoded.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The keys, in the requested order.
    pub records: Vec<Record>,
    /// Whether the limit cut the result.
    pub more: bool,
    /// Number of keys in the interval, before filters and limit.
    pub count: i64,
}

impl Selection {
    /// Returns the encoded size of its keys, bytes.
    pub fn wire_len(&self, projection: Projection) -> u64 {
        let sizes = self.records.iter();
        sizes.map(|r| projection.wire_len(r) as u64).sum()
    }
}

impl Snapshot {
    /// Returns the keys that `request` selects, ignoring its revision. O(log n + keys read):
    /// filters and sorts read the whole interval, as in etcd.
    ///
    /// # Errors
    /// [`Refusal::EmptyKey`], [`Refusal::InvalidSortOption`].
    pub fn select(&self, request: &RangeRequest) -> Result<Selection, Refusal> {
        Ok(select(self.tree(), request, RangePlan::of(request)?))
    }
}

pub(super) fn select(tree: &Tree<Record>, request: &RangeRequest, plan: RangePlan) -> Selection {
    let range = KeyRange::new(&request.key, &request.range_end);
    let count = tree.totals(range).count as i64;
    if request.count_only {
        return Selection {
            count,
            ..Selection::default()
        };
    }
    let limit = usize::try_from(request.limit)
        .ok()
        .filter(|limit| *limit > 0);
    let limit = limit.unwrap_or(usize::MAX);
    // In key order, one key more than the limit is read, and sorted with the others before the
    // limit applies.
    let keys_to_read = plan.keys_to_read(count as u64, request.limit) as usize;
    let keys_to_read = tree.cursor(range).take(keys_to_read);
    // Two cases, since the number of keys is known in advance only without a filter.
    let mut records: Vec<Record> = match plan.filtered {
        true => keys_to_read
            .filter(|record| passes(record, request))
            .collect(),
        false => keys_to_read.collect(),
    };
    sort(&mut records, plan);
    let more = records.len() > limit;
    records.truncate(limit);
    Selection {
        records,
        more,
        count,
    }
}

/// Returns whether a record passes the revision filters; 0 is unset, negative bounds apply.
fn passes(record: &Record, request: &RangeRequest) -> bool {
    let fields = record.fields();
    let within = |value, min, max| (max == 0 || value <= max) && (min == 0 || value >= min);
    let (min, max) = (request.min_mod_revision, request.max_mod_revision);
    let (min_create, max_create) = (request.min_create_revision, request.max_create_revision);
    within(fields.mod_revision, min, max) && within(fields.create_revision, min_create, max_create)
}

fn sort(records: &mut [Record], plan: RangePlan) {
    let by = |a: &Record, b: &Record| -> Ordering {
        match plan.target {
            SortTarget::Key => a.key().cmp(b.key()),
            SortTarget::Version => a.version().cmp(&b.version()),
            SortTarget::Create => a.create_revision().cmp(&b.create_revision()),
            SortTarget::Mod => a.mod_revision().cmp(&b.mod_revision()),
            SortTarget::Value => a.value().cmp(&b.value()),
        }
    };
    match (plan.order, plan.target) {
        (SortOrder::None | SortOrder::Ascend, SortTarget::Key) => {}
        (SortOrder::None | SortOrder::Ascend, _) => records.sort_by(by),
        (SortOrder::Descend, _) => records.sort_by(|a, b| by(b, a)),
    }
}

impl Projection {
    /// Returns the projection of `request`. `keys_only` omits the value, and also the lease unless
    /// sorting needs values: otherwise etcd 3.7 reads only its key index.
    pub fn of(request: &RangeRequest) -> Self {
        match request.keys_only {
            false => Self::Everything,
            true => Self::KeysOnly {
                lease: request.sort_target == SortTarget::Value as i32,
            },
        }
    }
}

/// Returns the response as a message, without a header.
pub(super) fn to_response(selection: Selection, request: &RangeRequest) -> RangeResponse {
    let shown = Projection::of(request);
    let kvs = selection.records.iter().map(|record| shown.kv(record));
    RangeResponse {
        header: None,
        kvs: kvs.collect(),
        more: selection.more,
        count: selection.count,
    }
}
