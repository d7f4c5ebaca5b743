//! Rules of watches of the history that [`super::writes`] wrote: which events are delivered, in
//! which order, and from which revision.

use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{EventKind, KubernetesEtcd as _, WatchEvent, WatchItem, WatchOptions};
use etcd_api::proto::etcdserverpb::RangeRequest;
use tokio::time::timeout;

use super::rules::*;
use super::writes::{FIRST, History, SECOND};
use super::{Observation, Probe, RULE_TIMEOUT, judged};
use crate::timeouts::in_time;

/// One event as rules compare it.
type Event = (i64, EventKind, String);

/// Tries these rules, and those of compaction if loadgen started the server.
///
/// # Errors
/// The error with which the endpoint was lost.
pub(super) async fn try_all(
    probe: &mut Probe,
    history: &History,
    is_ours: bool,
) -> Result<(), Error> {
    let wrote_all = history.deleted > 0 && history.revoked > 0 && history.both > 0;
    if !wrote_all {
        return Ok(());
    }
    let expected = expected(history);
    let delivered = watched(probe, history.created, history.revoked).await;
    match delivered {
        Err(received) => {
            let none = judged(false, received);
            probe.note(&WATCH_ORDER, Ok(none))?;
        }
        Ok(items) => {
            let received = events(probe, &items);
            probe.note(&WATCH_ORDER, Ok(order(&received, &expected)))?;
            probe.note(&WATCH_ONE_REVISION, Ok(one_revision(&items, history.both)))?;
            probe.note(&WATCH_DELETE, Ok(deletes(&received, history)))?;
            probe.note(&WATCH_PREV_KV, Ok(prev_kv(&items, history)))?;
        }
    }
    let resumed = watched(probe, history.updated, history.revoked).await;
    let resumed = match resumed {
        Err(received) => judged(false, received),
        Ok(items) => {
            let received = events(probe, &items);
            let first = received.first().map_or(0, |(revision, ..)| *revision);
            let after: Vec<_> = expected
                .iter()
                .filter(|(revision, ..)| *revision >= history.updated)
                .cloned()
                .collect();
            judged(
                received == after,
                format!(
                    "{} events, the first at revision {first}, where {} were due from {}",
                    received.len(),
                    after.len(),
                    history.updated
                ),
            )
        }
    };
    probe.note(&WATCH_RESUME, Ok(resumed))?;
    if is_ours {
        let checked = compacted_range(probe).await;
        if probe.note(&COMPACTED_RANGE, checked)? {
            let checked = compacted_watch(probe, history).await;
            probe.note(&COMPACTED_WATCH, Ok(checked))?;
        }
    }
    Ok(())
}

/// Returns all events of the history, in order.
fn expected(history: &History) -> Vec<Event> {
    let event = |at: i64, kind, name: &str| (at, kind, name.to_owned());
    let (put, delete) = (EventKind::Put, EventKind::Delete);
    vec![
        event(history.created, put, "a"),
        event(history.updated, put, "a"),
        event(history.puts[0], put, "p"),
        event(history.puts[1], put, "p"),
        event(history.both, put, "b"),
        event(history.both, put, "c"),
        event(history.deleted, delete, "a"),
        event(history.leased, put, "d"),
        event(history.revoked, delete, "d"),
    ]
}

/// Returns what a watch of the probe's prefix delivers from revision `from` until it has reached
/// revision `until`, or a line with the error of the watch.
async fn watched(probe: &Probe, from: i64, until: i64) -> Result<Vec<WatchItem>, String> {
    let options = WatchOptions {
        start_revision: from,
        prev_kv: true,
        stream_key: format!("probe-{from}"),
        ..WatchOptions::default()
    };
    let mut items = Vec::new();
    let watching = async {
        let watch = probe.storage.watch(&probe.prefix, options).await;
        let mut watch = watch.map_err(|error| error.to_string())?;
        while let Some(item) = watch.next().await {
            let item = item.map_err(|error| error.to_string())?;
            let at = match &item {
                WatchItem::Revision { revision, .. } => *revision,
                WatchItem::Progress { .. } => continue,
            };
            items.push(item);
            if at >= until {
                break;
            }
        }
        Ok::<_, String>(())
    };
    match timeout(RULE_TIMEOUT, watching).await {
        Ok(Err(error)) => Err(error),
        // What was received by then is checked; a check finds what is missing.
        Ok(Ok(())) | Err(_) => Ok(items),
    }
}

/// Returns the events in the order in which they were received, with keys as the history names
/// them.
fn events(probe: &Probe, items: &[WatchItem]) -> Vec<Event> {
    let events = items.iter().flat_map(of_item);
    events
        .map(|event| {
            let name = event.kv.key.get(probe.prefix.len()..).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            (event.kv.mod_revision, event.kind, name)
        })
        .collect()
}

fn of_item(item: &WatchItem) -> &[WatchEvent] {
    match item {
        WatchItem::Revision { events, .. } => events,
        WatchItem::Progress { .. } => &[],
    }
}

fn order(received: &[Event], expected: &[Event]) -> Observation {
    let shown = |events: &[Event]| {
        let events = events.iter().map(|(at, _, name)| format!("{name}@{at}"));
        events.collect::<Vec<_>>().join(" ")
    };
    // The event type of deletes is checked by a rule of its own.
    let plain = |events: &[Event]| {
        let events = events.iter().map(|(at, _, name)| (*at, name.clone()));
        events.collect::<Vec<_>>()
    };
    match plain(received) == plain(expected) {
        true => judged(true, format!("{} events", received.len())),
        false => judged(
            false,
            format!("{}; where {} were due", shown(received), shown(expected)),
        ),
    }
}

fn one_revision(items: &[WatchItem], both: i64) -> Observation {
    let parts: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            WatchItem::Revision { revision, events } if *revision == both => Some(events.len()),
            _ => None,
        })
        .collect();
    judged(
        parts == [2],
        format!(
            "{} events in {} parts",
            parts.iter().sum::<usize>(),
            parts.len()
        ),
    )
}

fn deletes(received: &[Event], history: &History) -> Observation {
    let deletes = received
        .iter()
        .filter(|(_, kind, _)| *kind == EventKind::Delete);
    let deletes: Vec<_> = deletes.map(|(at, _, name)| (*at, name.as_str())).collect();
    let due = [(history.deleted, "a"), (history.revoked, "d")];
    judged(deletes == due, format!("deletes {deletes:?} of {due:?}"))
}

fn prev_kv(items: &[WatchItem], history: &History) -> Observation {
    let prev = |at: i64| {
        let events = items.iter().flat_map(of_item);
        let mut events = events.filter(move |event| event.kv.mod_revision == at);
        events.find_map(|event| Some(event.prev_kv.as_ref()?.value.clone()))
    };
    let (updated, deleted) = (prev(history.updated), prev(history.deleted));
    let shown = |value: &Option<Bytes>| match value {
        None => "nothing".to_owned(),
        Some(value) => format!("`{}`", value.escape_ascii()),
    };
    judged(
        updated.as_deref() == Some(FIRST) && deleted.as_deref() == Some(SECOND),
        format!(
            "the update had {}, the delete {}",
            shown(&updated),
            shown(&deleted)
        ),
    )
}

async fn compacted_range(probe: &Probe) -> Result<Observation, Error> {
    let key = probe.key("a");
    let latest = in_time(probe.storage.current_revision(&key)).await?;
    in_time(probe.storage.compact(latest)).await?;
    let request = RangeRequest {
        key,
        revision: latest - 1,
        ..RangeRequest::default()
    };
    match probe.range(request).await {
        Err(Error::Refused(refusal)) => Ok(judged(refusal == Refusal::Compacted, refusal.text())),
        Err(other) => Err(other),
        Ok(_) => Ok(judged(false, "a response")),
    }
}

async fn compacted_watch(probe: &Probe, history: &History) -> Observation {
    match watched(probe, history.created, history.revoked).await {
        Ok(items) => judged(false, format!("{} items", items.len())),
        Err(received) => judged(received.contains("compacted revision is"), received),
    }
}
