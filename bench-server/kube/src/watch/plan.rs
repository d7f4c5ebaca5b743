//! The options of a WATCH, parsed: resourceVersion, sendInitialEvents and the time limit have the
//! same meaning as in kube-apiserver.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use kube_api::{ListOptions, Status};

/// The minimum duration of a watch without `timeoutSeconds`. Up to the same time is added at
/// random, so that watches that began together do not end together.
const MIN_TIMEOUT: Duration = Duration::from_secs(1_800);
/// The maximum duration of a watch, regardless of `timeoutSeconds`, because the range of clocks is
/// limited.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The events with which a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartWith {
    /// An ADDED event for each object, from a snapshot at this revision or later.
    InitialEvents(StartRevision),
    /// The events after this revision.
    EventsAfter(StartRevision),
}

/// The revision at which a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartRevision {
    /// Any revision that the cache has.
    Any,
    /// The revision of storage at the time of the request.
    Latest,
    /// This revision.
    At(i64),
}

/// The parsed options of a WATCH.
#[derive(Debug)]
pub(super) struct WatchPlan {
    pub(super) start: StartWith,
    /// Whether the client accepts bookmarks.
    pub(super) bookmarks: bool,
    /// Whether the initial events end with an annotated bookmark.
    pub(super) annotated_end: bool,
    pub(super) timeout: Duration,
}

impl WatchPlan {
    /// Parses options that have been validated. `watch_list` is the feature gate of
    /// sendInitialEvents.
    ///
    /// # Errors
    /// 500 for a resourceVersion that is not a number, as k8s.io/apiserver returns.
    pub(super) fn new(options: &ListOptions, watch_list: bool) -> Result<Self, Status> {
        let revision = options.revision().map_err(Status::into_revision_error)?;
        let revision = revision.map(|revision| revision as i64);
        let after = match revision {
            None => StartRevision::Latest,
            Some(0) => StartRevision::Any,
            Some(revision) => StartRevision::At(revision),
        };
        // Without a revision, the existing objects are sent first: with the gate on, by the default
        // of sendInitialEvents; with the gate off, by the original meaning of such a watch.
        let from_state = matches!(after, StartRevision::Latest | StartRevision::Any);
        let initial_events = options.send_initial_events.unwrap_or(from_state);
        let is_enabled = options.send_initial_events.is_some() || watch_list;
        Ok(Self {
            start: match initial_events {
                true => StartWith::InitialEvents(after),
                false => StartWith::EventsAfter(after),
            },
            bookmarks: options.allow_watch_bookmarks,
            annotated_end: initial_events && is_enabled && options.allow_watch_bookmarks,
            timeout: match options.timeout_seconds {
                0 => {
                    let chance = RandomState::new().build_hasher().finish() % 1_000;
                    MIN_TIMEOUT + MIN_TIMEOUT.mul_f64(chance as f64 / 1_000.0)
                }
                seconds => {
                    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(MAX_TIMEOUT)
                }
            },
        })
    }

    /// Returns whether the watch is a list in the form of a watch (KEP-3157).
    pub(super) fn is_watch_list(&self) -> bool {
        self.annotated_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(query: &str, watch_list: bool) -> (StartWith, bool) {
        let options = ListOptions::parse(query).expect("a query");
        let plan = WatchPlan::new(&options, watch_list).expect("a plan");
        (plan.start, plan.annotated_end)
    }

    #[test]
    fn the_table_row_by_row() {
        use StartRevision::{Any, At, Latest};
        use StartWith::{EventsAfter, InitialEvents};
        let sie = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let no = "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
        let bookmarks = "&allowWatchBookmarks=true";
        for (query, expected) in [
            ("".to_owned(), (InitialEvents(Latest), false)),
            (bookmarks.to_owned(), (InitialEvents(Latest), true)),
            (no.to_owned(), (EventsAfter(Latest), false)),
            (format!("{sie}{bookmarks}"), (InitialEvents(Latest), true)),
            (sie.to_owned(), (InitialEvents(Latest), false)),
            ("resourceVersion=0".to_owned(), (InitialEvents(Any), false)),
            (
                format!("resourceVersion=0{sie}{bookmarks}"),
                (InitialEvents(Any), true),
            ),
            (format!("resourceVersion=0{no}"), (EventsAfter(Any), false)),
            (
                format!("resourceVersion=7{bookmarks}"),
                (EventsAfter(At(7)), false),
            ),
            (
                format!("resourceVersion=7{no}"),
                (EventsAfter(At(7)), false),
            ),
            (
                format!("resourceVersion=7{sie}{bookmarks}"),
                (InitialEvents(At(7)), true),
            ),
        ] {
            assert_eq!(plan(&query, true), expected, "{query}");
        }
        assert_eq!(
            plan(bookmarks, false),
            (InitialEvents(Latest), false),
            "gate off"
        );
        let options = ListOptions::parse("resourceVersion=x").expect("a query");
        assert_eq!(
            WatchPlan::new(&options, true).expect_err("no number").code,
            500
        );
    }

    #[test]
    fn a_watch_without_a_timeout_lasts_between_half_an_hour_and_an_hour() {
        let timeout = |query| {
            let options = ListOptions::parse(query).expect("a query");
            WatchPlan::new(&options, true).expect("a plan").timeout
        };
        assert_eq!(timeout("timeoutSeconds=7"), Duration::from_secs(7));
        assert_eq!(timeout("timeoutSeconds=-1"), Duration::ZERO);
        let most = format!("timeoutSeconds={}", i64::MAX);
        assert_eq!(timeout(&most), MAX_TIMEOUT);
        for _ in 0..100 {
            assert!((MIN_TIMEOUT..2 * MIN_TIMEOUT).contains(&timeout("timeoutSeconds=0")));
        }
    }
}
