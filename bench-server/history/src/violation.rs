//! The rules, and violations of them.

/// A rule that a history can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Rule {
    /// A revision between two others has no event.
    #[error("the log lacks a revision")]
    LogGap,
    /// An event does not follow from the state before it.
    #[error("an event does not follow from the state before")]
    LogEvent,
    /// A write was acknowledged and is not in the log.
    #[error("an acknowledged write is lost")]
    LostWrite,
    /// The log has other changes at a write's revision than the write requests.
    #[error("a write changed something else")]
    WrongEffect,
    /// A write's response differs from the state before it.
    #[error("a write's response is wrong")]
    WrongResponse,
    /// Two writes were acknowledged with the same revision.
    #[error("a revision was given to two writes")]
    RevisionTwice,
    /// One write is in the log twice.
    #[error("a write was done twice")]
    WrittenTwice,
    /// A write was refused and is in the log.
    #[error("a refused write was done")]
    RefusedWrite,
    /// The log has changes that no request made.
    #[error("a change that no request made")]
    WriteFromNowhere,
    /// Keys of a lease were deleted before the end of its TTL, although no request revoked the
    /// lease.
    #[error("a lease expired before its time")]
    EarlyExpiry,
    /// A key was bound to a lease that had expired.
    #[error("a key is bound to an expired lease")]
    ExpiredLease,
    /// A write has a revision that was already seen before its call, or an earlier one.
    #[error("a write precedes what was seen before its call")]
    WriteOrder,
    /// A read is older than a revision that was seen before its call.
    #[error("a stale read")]
    StaleRead,
    /// A read shows a revision that does not exist yet.
    #[error("a read from the future")]
    FutureRead,
    /// A read's keys differ from the state at its revision.
    #[error("a read's keys are wrong")]
    WrongRead,
    /// A read's count, or whether there is more, differs from the state at its revision.
    #[error("a read's count is wrong")]
    WrongCount,
    /// A read of a compacted revision was served, or a read of another one was refused as
    /// compacted.
    #[error("compaction was ignored or made up")]
    Compaction,
    /// A watch has an event of a key outside of its range or before its start.
    #[error("a watch has an event that it did not ask for")]
    WatchFilter,
    /// The revisions of a watch decrease.
    #[error("a watch is out of order")]
    WatchOrder,
    /// A watch has an event twice.
    #[error("a watch has an event twice")]
    WatchDuplicate,
    /// The events of one revision are split over two responses.
    #[error("a watch splits a transaction")]
    WatchSplit,
    /// An event came after a progress response that includes its revision, or progress decreased.
    #[error("a watch's progress is wrong")]
    WatchProgress,
    /// A watch lacks an event.
    #[error("a watch lacks an event")]
    WatchGap,
    /// A watch's event differs from the log's.
    #[error("a watch's event is wrong")]
    WatchEvent,
}

/// A broken rule, with the request or response that broke it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {detail}")]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The request or response, its content, and the expected content.
    pub detail: String,
}

impl Violation {
    /// Returns a violation.
    pub(crate) fn new(rule: Rule, detail: String) -> Self {
        Self { rule, detail }
    }
}
