//! Checks what concurrent clients of an etcd saw: linearizability of reads and writes, and etcd's
//! watch guarantees.
//!
//! Every write that etcd acknowledges carries the revision that it made, so the order of writes is
//! known and nothing is searched for: the check takes n log n time. One watch of everything from
//! the first revision is the *log*. Then
//!
//! - the log has each revision once, and each event follows from the state before it;
//! - each acknowledged write is in the log once, with exactly its changes; one whose outcome is
//!   unknown at most once; and nothing is in the log that no request asked for;
//! - each response equals the replayed log at its revision, and that revision is at least every
//!   revision that a client had seen before the call (a write's is greater);
//! - a lease that expires deletes all its keys at one revision, which nobody has seen before its
//!   time, and no key is bound to it afterwards;
//! - each watch is told exactly the log's events of its range, in order.
//!
//! Nothing here does IO: [`check`] takes a [`History`], which serializes, so that a history that
//! failed can be kept and checked again. Values of puts must be unique within a history, the
//! database empty at its begin (revision 1), and all times readings of one monotonic clock.

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

/// How much a history without violations has of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Revisions of the log.
    pub revisions: usize,
    /// Acknowledged requests that changed something.
    pub writes: usize,
    /// Writes of unknown outcome that the log has.
    pub unknown_applied: usize,
    /// Writes of unknown outcome that it does not have.
    pub unknown_lost: usize,
    /// Leases that expired with keys.
    pub expiries: usize,
    /// Responses that were compared with the state: ranges, and requests that changed nothing.
    pub reads: usize,
    /// Compactions that were acknowledged.
    pub compactions: usize,
    /// Watch streams, the log's left out.
    pub watches: usize,
    /// Events on them.
    pub events: usize,
}

/// Checks a history.
///
/// # Errors
/// Every violation found, those of the log first. One fault of a server may break several rules.
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
