//! Rules of watches of the history that [`super::writes`] wrote: which events are sent, in which
//! order, and to which selectors.

use kube_api::client::KubeError;
use kube_api::media_type::JSON;
use serde_json::Value;

use super::requests::{CheckError, in_query, version_of};
use super::rules::*;
use super::writes::{FIRST, History, MORE};
use super::{Checked, Probe};
use crate::probe::{Observation, judged};

/// Type and resourceVersion of each event of `a`. The resourceVersion of a deletion is known from
/// its event only, so it is represented by [`DELETION`].
type Events = Vec<(String, u64)>;

/// The placeholder for the resourceVersion of the deletion.
const DELETION: u64 = 0;

/// Tries these rules.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe, history: &History) -> Result<(), KubeError> {
    if history.patched == 0 || history.gone_by == 0 {
        return Ok(());
    }
    let all = watched(probe, history, history.before, "").await;
    match all {
        Ok(all) => {
            let due = due(history);
            probe.note(&WATCH_ORDER, Ok(order(&all, history, &due)))?;
            probe.note(&WATCH_DELETED, Ok(deleted(&all, history)))?;
        }
        Err(trouble) => {
            probe.note(&WATCH_ORDER, Err(trouble))?;
        }
    }
    let resumed = watched(probe, history, history.updated, "").await;
    let later = due(history).split_off(2);
    let resumed = resumed.map(|resumed| order(&resumed, history, &later));
    probe.note(&WATCH_RESUME, resumed)?;
    let checked = leaves(probe, history).await;
    probe.note(&WATCH_LEAVES, checked)?;
    let checked = enters(probe, history).await;
    probe.note(&WATCH_ENTERS, checked)?;
    Ok(())
}

fn event(kind: &str, version: u64) -> (String, u64) {
    (kind.to_owned(), version)
}

/// Returns all events of the history of `a`, in order.
fn due(history: &History) -> Events {
    vec![
        event("ADDED", history.created),
        event("MODIFIED", history.updated),
        event("MODIFIED", history.patched),
        event("DELETED", DELETION),
    ]
}

/// Returns the events of a watch from a resourceVersion until the deletion of `a` for this watch.
async fn watched(
    probe: &Probe,
    history: &History,
    from: u64,
    labels: &str,
) -> Result<Vec<Value>, CheckError> {
    let selector = match labels {
        "" => String::new(),
        labels => format!("&labelSelector={}", in_query(labels)),
    };
    let path = probe.path(&format!("watch=true&resourceVersion={from}{selector}"));
    // The earliest resourceVersion at which the last event for this selector may come.
    let last = match labels {
        "stage=one" => history.updated,
        _ => history.patched + 1,
    };
    let is_last = |event: &Value| {
        let is_end = event["type"] == "DELETED" && version_of(&event["object"]) >= last;
        (is_a(event) && is_end) || event["type"] == "ERROR"
    };
    let watched = probe.requests.watch(&path, JSON, is_last).await?;
    Ok(watched.accepted()?.events)
}

fn is_a(event: &Value) -> bool {
    event["object"]["metadata"]["name"] == "a"
}

/// Returns type and resourceVersion of each event of `a`.
fn of_a(events: &[Value], history: &History) -> Events {
    let events = events.iter().filter(|event| is_a(event));
    let events = events.map(|event| {
        let kind = event["type"].as_str().unwrap_or_default();
        let version = version_of(&event["object"]);
        let is_deletion = version > history.patched && version <= history.gone_by;
        let is_deleted = kind == "DELETED" && is_deletion;
        self::event(kind, if is_deleted { DELETION } else { version })
    });
    events.collect()
}

fn shown(events: &Events) -> String {
    let events = events.iter().map(|(kind, version)| match *version {
        DELETION => format!("{kind} when deleted"),
        version => format!("{kind}@{version}"),
    });
    events.collect::<Vec<_>>().join(" ")
}

fn order(events: &[Value], history: &History, due: &Events) -> Observation {
    let received = of_a(events, history);
    let versions = events.iter().map(|event| version_of(&event["object"]));
    let holds = received == *due && versions.is_sorted();
    judged(
        holds,
        format!("{}, where due were {}", shown(&received), shown(due)),
    )
}

fn deleted(events: &[Value], history: &History) -> Observation {
    let deleted = events
        .iter()
        .find(|event| is_a(event) && event["type"] == "DELETED");
    let Some(deleted) = deleted else {
        return judged(false, "no DELETED");
    };
    let object = &deleted["object"];
    let version = version_of(object);
    let holds =
        object["data"]["more"] == MORE && version > history.patched && version <= history.gone_by;
    let received = format!(
        "at {version}, patched at {}, data {}",
        history.patched, object["data"]
    );
    judged(holds, received)
}

async fn leaves(probe: &Probe, history: &History) -> Checked {
    let events = watched(probe, history, history.before, "stage=one").await?;
    let mut received = of_a(&events, history);
    // Events of other objects with this label may follow; the history of `a` ends here for this
    // watch.
    received.truncate(2);
    let due = vec![
        event("ADDED", history.created),
        event("DELETED", history.updated),
    ];
    let last = events.iter().filter(|event| is_a(event)).nth(1);
    let value = last.map(|event| &event["object"]["data"]["value"]);
    let is_old = value.is_some_and(|value| *value == FIRST.0);
    let received = (shown(&received), received == due && is_old);
    Ok(judged(
        received.1,
        format!(
            "{}, where due were {}; its value {value:?}",
            received.0,
            shown(&due)
        ),
    ))
}

async fn enters(probe: &Probe, history: &History) -> Checked {
    let events = watched(probe, history, history.before, "stage=two").await?;
    let received = of_a(&events, history);
    let due = vec![
        event("ADDED", history.updated),
        event("MODIFIED", history.patched),
        event("DELETED", DELETION),
    ];
    let text = format!("{}, where due were {}", shown(&received), shown(&due));
    Ok(judged(received == due, text))
}
