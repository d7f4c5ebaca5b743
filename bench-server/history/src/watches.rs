//! Checks etcd's guarantees for watches: ordered, unique, atomic, bookmarkable, resumable,
//! reliable.

use crate::compactions::Compactions;
use crate::model::Model;
use crate::record::{Event, Message, Watch};
use crate::violation::{Rule, Violation};

/// The events and progress that a watch has received so far.
#[derive(Default)]
struct Told<'a> {
    /// The last event, and the earlier ones of the same revision.
    last: Vec<&'a Event>,
    progress: i64,
}

impl Told<'_> {
    fn revision(&self) -> i64 {
        self.last.last().map_or(0, |event| event.kv.mod_revision)
    }
}

fn violation(found: &mut Vec<Violation>, rule: Rule, watch: &Watch, detail: &str) {
    let (client, start, range) = (watch.client, watch.start, &watch.range);
    let detail = format!("{detail}: client {client}, from revision {start}, {range:?}");
    found.push(Violation::new(rule, detail));
}

/// Checks one stream without the log: events are ordered, unique, atomic and bookmarkable, and only
/// of the requested keys and revisions.
pub(crate) fn check_order(watch: &Watch, found: &mut Vec<Violation>) {
    let mut told = Told::default();
    for response in &watch.responses {
        match &response.message {
            Message::Events(events) => {
                let first = events.first().map_or(0, |event| event.kv.mod_revision);
                if !told.last.is_empty() && first == told.revision() {
                    let detail = format!("revision {first} goes on in another response");
                    violation(found, Rule::WatchSplit, watch, &detail);
                }
                for event in events {
                    check_event(watch, &mut told, event, found);
                }
            }
            Message::Progress(revision) => {
                if *revision < told.progress.max(told.revision()) {
                    let (event, before) = (told.revision(), told.progress);
                    let detail = format!("{revision} after event {event}, progress {before}");
                    violation(found, Rule::WatchProgress, watch, &detail);
                }
                told.progress = *revision;
            }
            Message::Compacted(_) => {}
        }
    }
}

fn check_event<'a>(
    watch: &Watch,
    told: &mut Told<'a>,
    event: &'a Event,
    found: &mut Vec<Violation>,
) {
    let kv = &event.kv;
    let last = told.revision();
    if kv.mod_revision < watch.start || !watch.range.contains(&kv.key) {
        violation(found, Rule::WatchFilter, watch, &format!("{kv:?}"));
    }
    if kv.mod_revision < last {
        let detail = format!("{kv:?} after revision {last}");
        violation(found, Rule::WatchOrder, watch, &detail);
    }
    if kv.mod_revision <= told.progress {
        let detail = format!("{kv:?} after progress {}", told.progress);
        violation(found, Rule::WatchProgress, watch, &detail);
    }
    if kv.mod_revision != last {
        told.last.clear();
    }
    if told.last.iter().any(|earlier| earlier.kv.key == kv.key) {
        violation(found, Rule::WatchDuplicate, watch, &format!("{kv:?}"));
    }
    told.last.push(event);
}

/// Checks that a stream has exactly the log's events of its range, from its start to the last
/// revision that it has confirmed, and their previous values if it has any.
pub(crate) fn check_complete(watch: &Watch, model: &Model, found: &mut Vec<Violation>) {
    let changes = model.between(watch.start, watch.complete_until());
    let mut owed = changes
        .filter(|kv| watch.range.contains(&kv.key))
        .peekable();
    for event in watch.events() {
        while let Some(missed) = owed.next_if(|kv| kv.mod_revision < event.kv.mod_revision) {
            violation(found, Rule::WatchGap, watch, &format!("{missed:?}"));
        }
        match owed.next_if(|kv| kv.mod_revision == event.kv.mod_revision) {
            Some(kv) if *kv == event.kv => {}
            other => {
                let detail = format!("{:?}, the log has {other:?}", event.kv);
                violation(found, Rule::WatchEvent, watch, &detail);
            }
        }
        let before = model.at(&event.kv.key, event.kv.mod_revision - 1);
        if event.previous.is_some() && event.previous.as_ref() != before {
            let detail = format!("{event:?}, before it was {before:?}");
            violation(found, Rule::WatchEvent, watch, &detail);
        }
    }
    for missed in owed {
        violation(found, Rule::WatchGap, watch, &format!("{missed:?}"));
    }
}

/// Checks that a cancelled watch was behind the compacted revision of its response, and that a
/// compaction to this revision was requested.
pub(crate) fn check_compacted(
    watch: &Watch,
    compactions: &Compactions<'_>,
    found: &mut Vec<Violation>,
) {
    for response in &watch.responses {
        let Message::Compacted(revision) = response.message else {
            continue;
        };
        let asked = compactions.asked_before(response.at);
        if watch.complete_until() + 1 >= revision || revision > asked {
            let detail = format!("cancelled for {revision}, at most {asked} was compacted");
            violation(found, Rule::Compaction, watch, &detail);
        }
    }
}
