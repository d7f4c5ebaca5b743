//! Checks writes against the log: acknowledged, refused, and of unknown outcome.

use std::collections::{BTreeMap, HashMap};

use crate::Checked;
use crate::expiries;
use crate::model::{Effect, Model};
use crate::observed::Observed;
use crate::record::{
    Call, History, KeyValue, Nanoseconds, OpResponse, Operation, Outcome, Txn, TxnResponse,
};
use crate::violation::{Rule, Violation};

/// The log's revisions, and the requests that made them.
struct Writes<'a> {
    model: &'a Model,
    observed: &'a Observed,
    /// The revisions at which the log has each value.
    revisions_of: HashMap<&'a str, Vec<i64>>,
    /// The client that made each revision.
    claimed: BTreeMap<i64, u32>,
    found: &'a mut Vec<Violation>,
}

/// Checks all transactions of a history.
pub(crate) fn check(
    history: &History,
    model: &Model,
    observed: &Observed,
    checked: &mut Checked,
    found: &mut Vec<Violation>,
) {
    let mut revisions_of: HashMap<&str, Vec<i64>> = HashMap::new();
    for (revision, events) in model.commits() {
        for kv in events.iter().filter(|kv| kv.version > 0) {
            revisions_of.entry(&kv.value).or_default().push(revision);
        }
    }
    let mut writes = Writes {
        model,
        observed,
        revisions_of,
        claimed: BTreeMap::new(),
        found,
    };
    let mut unknown_deletes = Vec::new();
    let mut unknown = Vec::new();
    let mut revokes = Vec::new();
    for operation in &history.operations {
        let Call::Txn(txn, outcome) = &operation.call else {
            continue;
        };
        writes.once(operation, txn);
        match outcome {
            Outcome::Done(response) if changes(response) => {
                checked.writes += 1;
                writes.acknowledged(operation, txn, response);
            }
            Outcome::Done(response) if response.responses.contains(&OpResponse::Revoke) => {
                revokes.push((operation, txn, response));
            }
            Outcome::Done(response) => {
                checked.reads += 1;
                writes.without_change(operation, txn, response);
            }
            Outcome::Refused(_) => writes.refused(operation, txn),
            Outcome::Unknown if txn.values().next().is_some() => unknown.push((operation, txn)),
            Outcome::Unknown => unknown_deletes.push((operation, txn)),
        }
    }
    for (operation, txn) in unknown {
        match writes.unknown(operation, txn) {
            true => checked.unknown_applied += 1,
            false => checked.unknown_lost += 1,
        }
    }
    for (operation, txn, response) in revokes {
        match writes.revoked(operation, txn, response) {
            true => checked.writes += 1,
            false => checked.reads += 1,
        }
    }
    let asked = unknown_deletes.len();
    let expiring = expiries::of(history);
    for operation in &expiring {
        if let Call::Txn(txn, _) = &operation.call {
            unknown_deletes.push((operation, txn));
        }
    }
    let explained = writes.unknown_deletes(&unknown_deletes, asked);
    let matched = explained[..asked].iter().flatten().count();
    checked.unknown_applied += matched;
    checked.unknown_lost += asked - matched;
    for (lease, found_at) in history.leases.iter().zip(&explained[asked..]) {
        let Some(found_at) = found_at else { continue };
        checked.expiries += 1;
        if found_at.is_sure {
            expiries::check_bound(model, lease, found_at.revision, writes.found);
        }
    }
}

/// The revision that a deletion of unknown outcome is matched with.
#[derive(Clone, Copy)]
struct MatchedRevision {
    revision: i64,
    /// Whether no other deletion can have made it.
    is_sure: bool,
}

/// Returns whether a response reports a change.
fn changes(response: &TxnResponse) -> bool {
    response.responses.iter().any(|response| match response {
        OpResponse::Put(_) => true,
        OpResponse::Delete(kvs) => !kvs.is_empty(),
        OpResponse::Revoke | OpResponse::Get(_) => false,
    })
}

impl Writes<'_> {
    fn violation(&mut self, rule: Rule, operation: &Operation, detail: &str) {
        let detail = format!("{detail}: {operation:?}");
        self.found.push(Violation::new(rule, detail));
    }

    /// Returns the first revision at which the log has a value that the transaction puts, if any.
    fn place(&self, txn: &Txn) -> Option<i64> {
        let places = txn
            .values()
            .filter_map(|value| self.revisions_of.get(value));
        places.flatten().copied().min()
    }

    /// Checks that the log does not have a value of the transaction twice.
    fn once(&mut self, operation: &Operation, txn: &Txn) {
        for value in txn.values() {
            if let Some([first, second, ..]) = self.revisions_of.get(value).map(Vec::as_slice) {
                let detail = format!("{value:?} has revisions {first} and {second}");
                self.violation(Rule::WrittenTwice, operation, &detail);
            }
        }
    }

    fn claim(&mut self, operation: &Operation, revision: i64) {
        if let Some(other) = self.claimed.insert(revision, operation.client) {
            let detail = format!("revision {revision} was made by client {other}, too");
            self.violation(Rule::RevisionTwice, operation, &detail);
        }
    }

    /// Checks that a write's revision is greater than every revision seen before its call.
    fn ordered(&mut self, operation: &Operation, revision: i64) {
        let seen = self.observed.before(operation.called);
        if revision <= seen {
            let detail = format!("revision {revision}, but {seen} was seen before its call");
            self.violation(Rule::WriteOrder, operation, &detail);
        }
    }

    fn acknowledged(&mut self, operation: &Operation, txn: &Txn, response: &TxnResponse) {
        let revision = response.revision;
        self.ordered(operation, revision);
        let absent = txn.values().next().is_some() && self.place(txn).is_none();
        let Some(events) = self.model.commit(revision).filter(|_| !absent) else {
            let detail = format!("the log does not have it at revision {revision}");
            return self.violation(Rule::LostWrite, operation, &detail);
        };
        self.claim(operation, revision);
        let effect = self.model.evaluate(revision - 1, txn);
        if !same_changes(&effect.events, events) {
            let detail = format!("should be {:?}, the log has {events:?}", effect.events);
            self.violation(Rule::WrongEffect, operation, &detail);
        }
        self.responded(operation, response, &effect);
    }

    /// Checks a transaction that changed nothing: a read at its header's revision.
    fn without_change(&mut self, operation: &Operation, txn: &Txn, response: &TxnResponse) {
        let seen = self.observed.before(operation.called);
        if response.revision < seen {
            let detail = format!("revision {seen} was seen before its call");
            self.violation(Rule::StaleRead, operation, &detail);
        }
        if response.revision > self.model.last() {
            let detail = format!("the log ends at revision {}", self.model.last());
            return self.violation(Rule::FutureRead, operation, &detail);
        }
        let effect = self.model.evaluate(response.revision, txn);
        self.responded(operation, response, &effect);
    }

    /// Checks the revocation of a lease, whose response does not report deleted keys. Returns
    /// whether it deleted any. Must run after all other acknowledged requests, because it takes one
    /// of the revisions that they have not claimed.
    fn revoked(&mut self, operation: &Operation, txn: &Txn, response: &TxnResponse) -> bool {
        let revision = response.revision;
        let events = self.model.commit(revision).unwrap_or_default();
        let effect = self.model.evaluate(revision - 1, txn);
        let is_free = !self.claimed.contains_key(&revision);
        if is_free && !events.is_empty() && same_changes(&effect.events, events) {
            self.ordered(operation, revision);
            self.claim(operation, revision);
            return true;
        }
        self.without_change(operation, txn, response);
        let left = self.model.evaluate(revision, txn).events;
        if !left.is_empty() {
            let detail = format!("keys are left at revision {revision}: {left:?}");
            self.violation(Rule::LostWrite, operation, &detail);
        }
        false
    }

    fn responded(&mut self, operation: &Operation, response: &TxnResponse, effect: &Effect) {
        if (response.succeeded, &response.responses) != (effect.succeeded, &effect.responses) {
            let (succeeded, responses) = (effect.succeeded, &effect.responses);
            let detail = format!("should have succeeded: {succeeded}, with {responses:?}");
            self.violation(Rule::WrongResponse, operation, &detail);
        }
    }

    fn refused(&mut self, operation: &Operation, txn: &Txn) {
        if let Some(revision) = self.place(txn) {
            let detail = format!("the log has it at revision {revision}");
            self.violation(Rule::RefusedWrite, operation, &detail);
        }
    }

    /// Checks a put of unknown outcome; returns whether the log has it.
    fn unknown(&mut self, operation: &Operation, txn: &Txn) -> bool {
        let Some(revision) = self.place(txn) else {
            return false;
        };
        self.ordered(operation, revision);
        self.claim(operation, revision);
        let effect = self.model.evaluate(revision - 1, txn);
        let events = self.model.commit(revision).unwrap_or_default();
        if !same_changes(&effect.events, events) {
            let detail = format!("should be {:?}, the log has {events:?}", effect.events);
            self.violation(Rule::WrongEffect, operation, &detail);
        }
        true
    }

    /// Matches each revision that no other request made with a deletion of unknown outcome. Returns
    /// the revision of each deletion. One deletion may explain several revisions, so this is a
    /// bipartite matching. The deletions from index `expiries` on are expired leases.
    fn unknown_deletes(
        &mut self,
        deletes: &[(&Operation, &Txn)],
        expiries: usize,
    ) -> Vec<Option<MatchedRevision>> {
        let unclaimed = self
            .model
            .commits()
            .filter(|(at, _)| !self.claimed.contains_key(at));
        let unclaimed: Vec<(i64, &[KeyValue])> = unclaimed.collect();
        let explains = |called: Nanoseconds, txn: &Txn, at: i64, events: &[KeyValue]| {
            self.observed.before(called) < at
                && same_changes(&self.model.evaluate(at - 1, txn).events, events)
        };
        let candidates = unclaimed.iter().map(|(at, events)| {
            let all = deletes.iter().enumerate();
            let fits = all.filter(|(_, (op, txn))| explains(op.called, txn, *at, events));
            fits.map(|(nth, _)| nth).collect()
        });
        let candidates: Vec<Vec<usize>> = candidates.collect();
        let mut explained_by = vec![None; deletes.len()];
        for (nth, (at, events)) in unclaimed.iter().enumerate() {
            let mut tried = vec![false; deletes.len()];
            if !assign(nth, &candidates, &mut explained_by, &mut tried) {
                let is_early = deletes[expiries..]
                    .iter()
                    .any(|(_, txn)| same_changes(&self.model.evaluate(at - 1, txn).events, events));
                let rule = match is_early {
                    true => Rule::EarlyExpiry,
                    false => Rule::WriteFromNowhere,
                };
                let detail = format!("revision {at}: {events:?}");
                self.found.push(Violation::new(rule, detail));
            }
        }
        let explains = |nth: Option<usize>| {
            nth.map(|nth| MatchedRevision {
                revision: unclaimed[nth].0,
                is_sure: candidates[nth].len() == 1,
            })
        };
        explained_by.into_iter().map(explains).collect()
    }
}

/// Assigns a deletion to a revision, and moves earlier assignments if necessary (Kuhn's augmenting
/// path).
fn assign(
    revision: usize,
    candidates: &[Vec<usize>],
    explained_by: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for &delete in &candidates[revision] {
        if std::mem::replace(&mut tried[delete], true) {
            continue;
        }
        let free = match explained_by[delete] {
            None => true,
            Some(other) => assign(other, candidates, explained_by, tried),
        };
        if free {
            explained_by[delete] = Some(revision);
            return true;
        }
    }
    false
}

/// Compares the changes of one revision in any order: their order in the log is the server's
/// choice.
fn same_changes(expected: &[KeyValue], found: &[KeyValue]) -> bool {
    expected.len() == found.len() && expected.iter().all(|kv| found.contains(kv))
}
