//! The revisions that clients had seen, by time.

use crate::record::{Call, History, Message, Nanoseconds, Outcome};

/// The highest revision that any client had seen at each time.
pub(crate) struct Observed {
    /// Ascending times, each with the highest revision seen up to it.
    highest: Vec<(Nanoseconds, i64)>,
}

impl Observed {
    /// Collects the revisions of all responses and watch responses of a history. Requests that are
    /// called after a revision was seen must not precede it.
    pub(crate) fn new(history: &History) -> Self {
        let mut seen: Vec<(Nanoseconds, i64)> = Vec::new();
        for operation in &history.operations {
            let revision = match &operation.call {
                Call::Txn(_, Outcome::Done(response)) => response.revision,
                Call::Range(_, Outcome::Done(response)) => response.revision,
                Call::Compact(_, Outcome::Done(revision)) => *revision,
                _ => continue,
            };
            seen.push((operation.settled, revision));
        }
        for watch in history.watches.iter().chain([&history.log]) {
            for response in &watch.responses {
                let revision = match &response.message {
                    Message::Events(events) => events.last().map_or(0, |e| e.kv.mod_revision),
                    Message::Progress(revision) | Message::Compacted(revision) => *revision,
                };
                seen.push((response.at, revision));
            }
        }
        seen.sort_unstable();
        let mut highest = 1;
        for (_, revision) in &mut seen {
            highest = highest.max(*revision);
            *revision = highest;
        }
        Self { highest: seen }
    }

    /// Returns the highest revision seen before a time.
    pub(crate) fn before(&self, time: Nanoseconds) -> i64 {
        let earlier = self.highest.partition_point(|(at, _)| *at < time);
        match earlier {
            0 => 1,
            n => self.highest[n - 1].1,
        }
    }
}
