//! The rules, and what breaks one.

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
    /// The log has other changes at a write's revision than the write asks for.
    #[error("a write changed something else")]
    WrongEffect,
    /// A write's response differs from the state before it.
    #[error("a write's response is wrong")]
    WrongResponse,
    /// Two writes were acknowledged with one revision.
    #[error("a revision was given to two writes")]
    RevisionTwice,
    /// One write is in the log twice.
    #[error("a write was done twice")]
    WrittenTwice,
    /// A write was refused and is in the log.
    #[error("a refused write was done")]
    RefusedWrite,
    /// The order of writes has changes that no request made.
    #[error("a change that no request made")]
    WriteFromNowhere,
    /// Keys of a lease were deleted before its time to live was over, and nobody had asked for it.
    #[error("a lease expired before its time")]
    EarlyExpiry,
    /// A key was bound to a lease that had expired.
    #[error("a key is bound to an expired lease")]
    ExpiredLease,
    /// A write precedes what was seen before it was called.
    #[error("a write precedes what was seen before its call")]
    WriteOrder,
    /// A read does not see what was seen before it was called.
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
    /// A read of a compacted revision was served, or one of another was refused as compacted.
    #[error("compaction was ignored or made up")]
    Compaction,
    /// A watch has an event of a key outside of its range or before its start.
    #[error("a watch has an event that it did not ask for")]
    WatchFilter,
    /// Revisions of a watch fall.
    #[error("a watch is out of order")]
    WatchOrder,
    /// A watch has an event twice.
    #[error("a watch has an event twice")]
    WatchDuplicate,
    /// The events of one revision came in two responses.
    #[error("a watch splits a transaction")]
    WatchSplit,
    /// An event came after a progress response of its revision, or progress fell.
    #[error("a watch's progress is wrong")]
    WatchProgress,
    /// A watch lacks an event.
    #[error("a watch lacks an event")]
    WatchGap,
    /// A watch's event differs from the log's.
    #[error("a watch's event is wrong")]
    WatchEvent,
}

/// A rule that was broken, and by what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {detail}")]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The request or response, what it has and what it must have.
    pub detail: String,
}

impl Violation {
    /// Makes one.
    pub(crate) fn new(rule: Rule, detail: String) -> Self {
        Self { rule, detail }
    }
}
