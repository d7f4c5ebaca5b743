//! Where a watch begins, by the apiserver's table of resourceVersion and sendInitialEvents, and how long it
//! lasts.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use kube_api::{ListOptions, Status};

/// A watch without `timeoutSeconds` lasts so long, and by chance up to twice as long, so that watches which
/// began together do not end together.
const MIN_TIMEOUT: Duration = Duration::from_secs(1_800);
/// No watch lasts longer, whatever it asks for: clocks cannot count on without an end.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// What a watch begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartWith {
    /// An ADDED event for each object there is, in a state that is not older than this.
    InitialEvents(StartRevision),
    /// The events that follow this.
    EventsAfter(StartRevision),
}

/// A point in a resource's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartRevision {
    /// Wherever the cache is.
    Any,
    /// Where storage is when the request comes.
    Latest,
    /// This revision.
    At(i64),
}

/// A watch's options, understood.
#[derive(Debug)]
pub(super) struct WatchPlan {
    pub(super) start: StartWith,
    /// The client takes bookmarks.
    pub(super) bookmarks: bool,
    /// A bookmark with the annotation ends the initial events.
    pub(super) annotated_end: bool,
    pub(super) timeout: Duration,
}

impl WatchPlan {
    /// Reads options that were validated. `watch_list` is the gate of sendInitialEvents.
    ///
    /// # Errors
    /// 500 for a resourceVersion that is no number, as upstream answers.
    pub(super) fn new(options: &ListOptions, watch_list: bool) -> Result<Self, Status> {
        let revision = options.revision().map_err(Status::of_a_revision)?;
        let revision = revision.map(|revision| revision as i64);
        let after = match revision {
            None => StartRevision::Latest,
            Some(0) => StartRevision::Any,
            Some(revision) => StartRevision::At(revision),
        };
        // Who names no revision gets the state first: by defaulting where the gate is on, and by the older
        // meaning of such a watch where it is off.
        let from_state = matches!(after, StartRevision::Latest | StartRevision::Any);
        let initial_events = options.send_initial_events.unwrap_or(from_state);
        let asked = options.send_initial_events.is_some() || watch_list;
        Ok(Self {
            start: match initial_events {
                true => StartWith::InitialEvents(after),
                false => StartWith::EventsAfter(after),
            },
            bookmarks: options.allow_watch_bookmarks,
            annotated_end: initial_events && asked && options.allow_watch_bookmarks,
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

    /// Whether it is a list in the form of a watch (KEP-3157).
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
