//! Checks what concurrent clients of an etcd observed: linearizability of reads and writes, and
//! etcd's guarantees for watches.
//!
//! Every write that etcd acknowledges carries the revision that it made, so the order of writes is
//! known and needs no search: the check takes n log n time. One watch of all keys from the first
//! revision is the *log*. The rules are:
//!
//! - the log has each revision once, and each event follows from the state before it;
//! - each acknowledged write is in the log once, with exactly its changes; a write of unknown
//!   outcome is in it at most once; and the log has nothing that no request made;
//! - each response equals the replayed log at its revision, and that revision is at least every
//!   revision that a client had seen before the call (for a write, it is greater);
//! - a lease that expires deletes all its keys at one revision, which no client has seen before the
//!   end of its TTL, and no key is bound to the lease afterwards;
//! - each watch receives exactly the log's events of its range, in order.
//!
//! There is no I/O: [`check`] takes a [`History`], which can be serialized, so a history that
//! failed can be stored and checked again. The values of puts must be unique within a history, the
//! database must be empty at its beginning (revision 1), and all times must be readings of one
//! monotonic clock.

mod compactions;
mod expiries;
mod model;
mod observed;
mod reads;
mod record;
#[cfg(test)]
mod tests;
mod violation;
mod watches;
mod writes;

pub use record::{
    Call, Change, Compare, Event, History, KeyRange, KeyValue, Lease, Message, Nanoseconds,
    OpResponse, Operation, Outcome, RangeRequest, RangeResponse, Refusal, Txn, TxnResponse, Watch,
    WatchResponse,
};
pub use violation::{Rule, Violation};

use compactions::Compactions;
use model::Model;
use observed::Observed;

/// What was checked in a history without violations: the number of items of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Revisions in the log.
    pub revisions: usize,
    /// Acknowledged requests that changed something.
    pub writes: usize,
    /// Writes of unknown outcome that are in the log.
    pub unknown_applied: usize,
    /// Writes of unknown outcome that are not in the log.
    pub unknown_lost: usize,
    /// Leases that expired with keys.
    pub expiries: usize,
    /// Responses that were compared with the state: ranges, and requests that changed nothing.
    pub reads: usize,
    /// Acknowledged compactions.
    pub compactions: usize,
    /// Watch streams, except the log.
    pub watches: usize,
    /// Events on these streams.
    pub events: usize,
}

/// Checks a history.
///
/// # Errors
/// Every violation found, those of the log first. A single fault of a server may break several
/// rules.
pub fn check(history: &History) -> Result<Checked, Vec<Violation>> {
    let mut found = Vec::new();
    let mut checked = Checked::default();
    watches::check_order(&history.log, &mut found);
    let model = Model::replay(&history.log, &mut found);
    let observed = Observed::new(history);
    let compactions = Compactions::new(history);
    checked.revisions = model.len();
    writes::check(history, &model, &observed, &mut checked, &mut found);
    reads::check(
        history,
        &model,
        &observed,
        &compactions,
        &mut checked,
        &mut found,
    );
    for watch in &history.watches {
        watches::check_order(watch, &mut found);
        watches::check_complete(watch, &model, &mut found);
        watches::check_compacted(watch, &compactions, &mut found);
        checked.watches += 1;
        checked.events += watch.events().count();
    }
    if found.is_empty() {
        Ok(checked)
    } else {
        Err(found)
    }
}
