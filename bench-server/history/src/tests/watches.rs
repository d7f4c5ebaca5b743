//! Checks each rule of watches with a history that breaks it.

use super::broken;
use super::good::{deleted, events, kv, progress, range};
use crate::Rule;
use crate::record::{History, Message, Watch, WatchResponse};

fn responses_of(history: &mut History) -> &mut Vec<WatchResponse> {
    &mut history.watches[0].responses
}

/// Returns another watch, of the keys from a to d, whose own start and end are checked.
fn watch(start: i64, responses: Vec<WatchResponse>) -> Watch {
    Watch {
        client: 3,
        range: range("a", "d"),
        start,
        responses,
    }
}

#[test]
fn a_watch_out_of_order() {
    let rules = broken(|history| responses_of(history).swap(0, 1));
    assert!(rules.contains(&Rule::WatchOrder), "{rules:?}");
}

#[test]
fn a_watch_with_a_duplicate() {
    let rules = broken(|history| {
        let Message::Events(events) = &mut responses_of(history)[1].message else {
            panic!("events")
        };
        let again = events[0].clone();
        events.push(again);
    });
    assert!(rules.contains(&Rule::WatchDuplicate), "{rules:?}");
    assert!(rules.contains(&Rule::WatchEvent), "{rules:?}");
}

#[test]
fn a_watch_that_splits_a_transaction() {
    let rules = broken(|history| {
        responses_of(history)[2] = events(65, vec![kv("c", "3", 4, 4, 1)]);
        responses_of(history).insert(3, events(66, vec![deleted("a", 4)]));
    });
    assert_eq!(rules, [Rule::WatchSplit]);
}

#[test]
fn a_watch_with_a_gap() {
    // A gap in the middle, at the start, and at the end, which the last progress reveals.
    for nth in [0, 1, 3, 5] {
        let rules = broken(|history| {
            responses_of(history).remove(nth);
        });
        assert_eq!(rules, [Rule::WatchGap], "response {nth}");
    }
    // One event of a transaction is missing.
    let rules =
        broken(|history| responses_of(history)[2] = events(65, vec![kv("c", "3", 4, 4, 1)]));
    assert_eq!(rules, [Rule::WatchGap]);
    // Resumed after revision 4: its first event is not the next one.
    let resumed = watch(5, vec![events(220, vec![deleted("b", 6)])]);
    assert_eq!(broken(|h| h.watches.push(resumed)), [Rule::WatchGap]);
}

#[test]
fn a_watch_with_wrong_progress() {
    // Progress to a revision whose event comes later.
    let rules = broken(|history| responses_of(history)[4] = progress(100, 6));
    assert!(rules.contains(&Rule::WatchProgress), "{rules:?}");
    let rules = broken(|history| responses_of(history)[6] = progress(210, 5));
    assert_eq!(rules, [Rule::WatchProgress]);
}

#[test]
fn a_watch_with_what_it_did_not_ask_for() {
    let rules = broken(|history| {
        responses_of(history).insert(6, events(206, vec![kv("d", "5", 7, 7, 1)]));
    });
    assert!(rules.contains(&Rule::WatchFilter), "{rules:?}");
    let early = watch(3, vec![events(215, vec![kv("a", "1", 2, 2, 1)])]);
    let rules = broken(|history| history.watches.push(early));
    assert!(rules.contains(&Rule::WatchFilter), "{rules:?}");
}

#[test]
fn a_watch_with_a_wrong_event() {
    let rules =
        broken(|history| responses_of(history)[0] = events(25, vec![kv("a", "9", 2, 2, 1)]));
    assert_eq!(rules, [Rule::WatchEvent]);
    let rules = broken(|history| {
        let Message::Events(events) = &mut responses_of(history)[3].message else {
            panic!("events")
        };
        events[0].previous = Some(kv("b", "1", 3, 3, 1));
    });
    assert_eq!(rules, [Rule::WatchEvent]);
}

#[test]
fn a_watch_that_is_cancelled_without_a_compaction() {
    for (start, revision, allowed) in [(2, 3, true), (3, 3, false), (2, 4, false)] {
        let rules = broken(|history| {
            let message = Message::Compacted(revision);
            history
                .watches
                .push(watch(start, vec![WatchResponse { at: 215, message }]));
        });
        assert_eq!(rules.is_empty(), allowed, "{start} {revision}: {rules:?}");
    }
}
