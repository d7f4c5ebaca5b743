//! What a Range selects from a view: filters, order, limit, count (etcd's `executeRange`).

use std::cmp::Ordering;

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::proto::etcdserverpb::{RangeRequest, RangeResponse};
use index::Tree;

use super::Record;
use super::record::Projection;
use super::snapshot::Snapshot;

/// How a request wants its keys ordered, and how much must be read for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    order: SortOrder,
    target: SortTarget,
    filtered: bool,
}

impl Plan {
    /// Reads the request's options.
    ///
    /// # Errors
    /// [`Refusal::EmptyKey`], [`Refusal::InvalidSortOption`] for a number that etcd does not know.
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

    /// Whether any min/max revision filter is set.
    pub fn is_filtered(self) -> bool {
        self.filtered
    }

    /// Whether the keys are fetched in key order, ascending: no order asked for, or that one. With
    /// no order and a target other than the key, what was fetched and cut is sorted afterwards.
    pub fn fetches_in_key_order(self) -> bool {
        self.order == SortOrder::None
            || (self.order == SortOrder::Ascend && self.target == SortTarget::Key)
    }

    /// Keys that must be looked at to answer from an interval of `count`, at most `limit` of them (0: all).
    pub fn looks_at(self, count: u64, limit: i64) -> u64 {
        match u64::try_from(limit) {
            Ok(1..) if self.filtered || !self.fetches_in_key_order() => count,
            Ok(limit @ 1..) => count.min(limit.saturating_add(1)),
            _ => count,
        }
    }

    /// Whether the answer is the index's own sequence, cut by the limit: nothing to filter, nothing
    /// to sort. Such an answer can be sent while it is being read.
    pub fn is_plain(self) -> bool {
        !self.filtered && self.fetches_in_key_order() && self.target == SortTarget::Key
    }
}

/// What a Range answers, before it is encoded.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The keys, in the order asked for.
    pub records: Vec<Record>,
    /// Whether the limit cut the answer.
    pub more: bool,
    /// Keys in the interval, before filters and limit.
    pub count: i64,
}

impl Snapshot {
    /// What `request` selects; its revision is the snapshot's business. O(log n + keys read):
    /// filters and sorts read the whole interval, as etcd's do.
    ///
    /// # Errors
    /// [`Refusal::EmptyKey`], [`Refusal::InvalidSortOption`].
    pub fn select(&self, request: &RangeRequest) -> Result<Selection, Refusal> {
        Ok(select(self.tree(), request, Plan::of(request)?))
    }
}

pub(super) fn select(tree: &Tree<Record>, request: &RangeRequest, plan: Plan) -> Selection {
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
    // In key order one more than the limit: it is sorted with the others before the cut.
    let looked_at = plan.looks_at(count as u64, request.limit) as usize;
    let looked_at = tree.cursor(range).take(looked_at);
    // Apart, since only without a filter is it known how many come.
    let mut records: Vec<Record> = match plan.filtered {
        true => looked_at.filter(|record| passes(record, request)).collect(),
        false => looked_at.collect(),
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

/// The revision filters; 0 is unset, negative bounds count.
fn passes(record: &Record, request: &RangeRequest) -> bool {
    let fields = record.fields();
    let within = |value, min, max| (max == 0 || value <= max) && (min == 0 || value >= min);
    let (min, max) = (request.min_mod_revision, request.max_mod_revision);
    let (min_create, max_create) = (request.min_create_revision, request.max_create_revision);
    within(fields.mod_revision, min, max) && within(fields.create_revision, min_create, max_create)
}

fn sort(records: &mut [Record], plan: Plan) {
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
    /// What `request` wants of a key. With `keys_only` the value is left out, and so is the lease, except where the
    /// values were needed for sorting: etcd 3.7 answers from its key index otherwise.
    pub fn of(request: &RangeRequest) -> Self {
        match request.keys_only {
            false => Self::Everything,
            true => Self::KeysOnly {
                lease: request.sort_target == SortTarget::Value as i32,
            },
        }
    }
}

/// The answer as a message, header left to the caller.
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
