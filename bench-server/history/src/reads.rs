//! Checks ranges and compactions against the replayed log.

use crate::Checked;
use crate::compactions::Compactions;
use crate::model::Model;
use crate::observed::Observed;
use crate::record::{Call, History, Operation, Outcome, RangeRequest, RangeResponse, Refusal};
use crate::violation::{Rule, Violation};

struct Reads<'a> {
    compactions: &'a Compactions<'a>,
    model: &'a Model,
    observed: &'a Observed,
    found: &'a mut Vec<Violation>,
}

/// Checks all ranges and compactions of a history.
pub(crate) fn check(
    history: &History,
    model: &Model,
    observed: &Observed,
    compactions: &Compactions<'_>,
    checked: &mut Checked,
    found: &mut Vec<Violation>,
) {
    let mut reads = Reads {
        compactions,
        model,
        observed,
        found,
    };
    for operation in &history.operations {
        match &operation.call {
            Call::Range(request, Outcome::Done(response)) => {
                checked.reads += 1;
                reads.served(operation, request, response);
            }
            Call::Range(request, Outcome::Refused(refusal)) => {
                reads.refused(operation, request.revision, refusal);
            }
            Call::Compact(_, Outcome::Done(revision)) => {
                checked.compactions += 1;
                reads.fresh(operation, *revision);
            }
            Call::Compact(revision, Outcome::Refused(refusal)) => {
                reads.refused(operation, *revision, refusal);
            }
            // Reads of unknown outcome cannot be checked; transactions are checked with the writes.
            Call::Range(..) | Call::Compact(..) | Call::Txn(..) => {}
        }
    }
}

impl Reads<'_> {
    fn violation(&mut self, rule: Rule, operation: &Operation, detail: &str) {
        let detail = format!("{detail}: {operation:?}");
        self.found.push(Violation::new(rule, detail));
    }

    /// Checks that a response is not older than the revisions seen before its call.
    fn fresh(&mut self, operation: &Operation, revision: i64) {
        let seen = self.observed.before(operation.called);
        if revision < seen {
            let detail = format!("revision {seen} was seen before its call");
            self.violation(Rule::StaleRead, operation, &detail);
        }
    }

    fn served(&mut self, operation: &Operation, request: &RangeRequest, response: &RangeResponse) {
        self.fresh(operation, response.revision);
        let at = match request.revision {
            0 => response.revision,
            asked => asked,
        };
        let last = self.model.last().min(response.revision);
        if at > last || response.revision > self.model.last() {
            let detail = format!("read at revision {at}, the last is {last}");
            return self.violation(Rule::FutureRead, operation, &detail);
        }
        let compacted = self.compactions.done_before(operation.called);
        if request.revision > 0 && at < compacted {
            let detail = format!("revision {compacted} had been compacted");
            self.violation(Rule::Compaction, operation, &detail);
        }
        let state: Vec<_> = self.model.range(&request.range, at).collect();
        let returned = match (request.count_only, request.limit) {
            (true, _) => 0,
            (false, 0) => state.len(),
            (false, limit) => limit.min(state.len()),
        };
        if response.kvs.iter().ne(state[..returned].iter().copied()) {
            let detail = format!("should be {:?}", &state[..returned]);
            self.violation(Rule::WrongRead, operation, &detail);
        }
        let more = !request.count_only && returned < state.len();
        if (response.count, response.more) != (state.len() as i64, more) {
            let detail = format!("should be {} keys, more: {more}", state.len());
            self.violation(Rule::WrongCount, operation, &detail);
        }
    }

    fn refused(&mut self, operation: &Operation, asked: i64, refusal: &Refusal) {
        match refusal {
            // A second compaction of a revision is refused; a read of the compacted revision is
            // not.
            Refusal::Compacted => {
                let compacted = self.compactions.asked_before(operation.returned);
                let refusable = match operation.call {
                    Call::Compact(..) => self.compactions.may_precede(operation, asked),
                    _ => asked < compacted,
                };
                if !refusable {
                    let detail = format!("at most {compacted} was compacted");
                    self.violation(Rule::Compaction, operation, &detail);
                }
            }
            Refusal::FutureRevision => {
                let seen = self.observed.before(operation.called);
                if asked <= seen {
                    let detail = format!("revision {seen} was seen before its call");
                    self.violation(Rule::StaleRead, operation, &detail);
                }
            }
            Refusal::Other(_) => {}
        }
    }
}
