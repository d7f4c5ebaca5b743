//! Rules of watches that only read: how a watch begins, and how it ends.

use std::collections::BTreeMap;

use futures::join;
use kube_api::client::KubeError;
use kube_api::envelope;
use kube_api::media_type::JSON;
use kube_api::protobuf::find_bytes;
use serde_json::Value;

use super::requests::{CheckError, Watched, in_query, key_of, version_of};
use super::rules::*;
use super::{Checked, Probe};
use crate::probe::{Observation, judged, lacking};

/// The media type of a watch in protobuf.
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// The annotation of the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Tries these rules. Watches that run for a second run concurrently, each on a connection of its
/// own.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<(), KubeError> {
    let initial = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let n = probe.collection.base.version;
    let name = in_query(&format!("metadata.name={}", probe.collection.name(1)));
    let watch = |query: String, accept: &'static str| {
        let path = probe.path(&query);
        let requests = &probe.requests;
        async move { requests.watch(&path, accept, is_initial_end).await }
    };
    let second = |query: &str, accept| watch(format!("{query}&timeoutSeconds=1"), accept);
    let none = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let (listed, unmarked, cached, from, none, named, protobuf) = join!(
        watch(format!("{initial}&allowWatchBookmarks=true"), JSON),
        second(initial, JSON),
        second("watch=true&resourceVersion=0", JSON),
        second(&format!("watch=true&resourceVersion={n}"), JSON),
        second(none, JSON),
        second(
            &format!("watch=true&resourceVersion=0&fieldSelector={name}"),
            JSON
        ),
        second("watch=true&resourceVersion=0", PROTOBUF_WATCH),
    );
    if let Ok(Some(refused)) = listed.as_ref().map(|watched| watched.refused.as_ref())
        && refused.code == 422
    {
        let received = refused.shown();
        probe.note(&WATCH_LIST, Ok(lacking(received)))?;
    } else {
        watch_list(probe, listed, unmarked).await?;
        let none = none.map(|watched| nothing_old(probe, &watched));
        probe.note(&WATCH_NO_INITIAL, none)?;
    }
    let cached = cached.and_then(Watched::accepted);
    let cached = cached.map(|watched| state(probe, &watched));
    probe.note(&WATCH_CACHED, cached)?;
    match from {
        Ok(watched) => {
            let newer = nothing_old(probe, &watched);
            probe.note(&WATCH_VERSION, Ok(newer))?;
            let ended = match watched.ended {
                true => "it ended",
                false => "it went on, or its connection broke",
            };
            probe.note(&WATCH_TIMEOUT, Ok(judged(watched.ended, ended)))?;
        }
        Err(trouble) => {
            probe.note(&WATCH_VERSION, Err(trouble))?;
        }
    }
    let named = named.and_then(Watched::accepted);
    let named = named.map(|watched| alone(probe, &watched));
    probe.note(&WATCH_NAME, named)?;
    let checked = protobuf.and_then(|watched| in_protobuf(probe, &watched));
    probe.note(&WATCH_PROTOBUF, checked)?;
    Ok(())
}

async fn watch_list(
    probe: &mut Probe,
    listed: Result<Watched, CheckError>,
    unmarked: Result<Watched, CheckError>,
) -> Result<(), KubeError> {
    match listed.and_then(Watched::accepted) {
        Ok(watched) => {
            let checked = whole(probe, &watched).await;
            probe.note(&WATCH_LIST, checked)?;
            let marked = bookmark(probe, &watched);
            probe.note(&WATCH_BOOKMARK, Ok(marked))?;
        }
        Err(trouble) => {
            probe.note(&WATCH_LIST, Err(trouble))?;
        }
    }
    let unmarked = unmarked.and_then(Watched::accepted);
    let unmarked = unmarked.map(|watched| {
        let bookmarks = watched.of_type("BOOKMARK").count();
        let added = watched.of_type("ADDED").count();
        let is_whole = added >= probe.collection.base.items.len();
        let received = format!("{added} objects and {bookmarks} bookmarks");
        judged(bookmarks == 0 && is_whole, received)
    });
    probe.note(&WATCH_NO_BOOKMARK, unmarked)?;
    Ok(())
}

/// Returns whether an event is the bookmark after the initial events, or an error.
fn is_initial_end(event: &Value) -> bool {
    let annotations = &event["object"]["metadata"]["annotations"];
    match event["type"].as_str() {
        Some("BOOKMARK") => annotations[INITIAL_EVENTS_END] == "true",
        Some("ERROR") => true,
        _ => false,
    }
}

/// Checks that the initial events are the list at the bookmark's resourceVersion.
async fn whole(probe: &mut Probe, watched: &Watched) -> Checked {
    let end = watched.events.iter().position(is_initial_end);
    let Some((end, before)) = end.and_then(|end| watched.events[..=end].split_last()) else {
        let received = format!(
            "{} events, and no bookmark behind them",
            watched.events.len()
        );
        return Ok(judged(false, received));
    };
    let version = version_of(&end["object"]);
    let due: BTreeMap<_, _> = probe.exact(version).await?.items.into_iter().collect();
    // Changes by other clients may come before the bookmark.
    let mut objects = BTreeMap::new();
    for event in before {
        let (key, version) = (key_of(&event["object"]), version_of(&event["object"]));
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => drop(objects.insert(key, version)),
            _ => drop(objects.remove(&key)),
        }
    }
    let keys = before.iter().map(|event| key_of(&event["object"]));
    let is_ordered = before.len() > due.len() || keys.is_sorted();
    let received = format!(
        "{} objects{}, then a bookmark at {version}, where {} were due",
        objects.len(),
        if is_ordered { "" } else { " out of order" },
        due.len()
    );
    Ok(judged(is_ordered && objects == due, received))
}

fn bookmark(probe: &Probe, watched: &Watched) -> Observation {
    let Some(end) = watched.of_type("BOOKMARK").next() else {
        return judged(false, "no bookmark");
    };
    let object = &end["object"];
    let (kind, version) = (&object["kind"], version_of(object));
    let base = probe.collection.base.version;
    let holds = *kind == probe.collection.kind.as_str() && version >= base;
    judged(holds, format!("a {kind} at {version}, N is {base}"))
}

/// Checks that every object of the first list has an ADDED event.
fn state(probe: &Probe, watched: &Watched) -> Observation {
    let added: Vec<_> = watched
        .of_type("ADDED")
        .map(|e| key_of(&e["object"]))
        .collect();
    let base = &probe.collection.base.items;
    let missing = base.iter().filter(|(key, _)| !added.contains(key)).count();
    let received = format!(
        "{} objects, {missing} of {} missing",
        added.len(),
        base.len()
    );
    judged(missing == 0, received)
}

/// Checks that every event is newer than the first list.
fn nothing_old(probe: &Probe, watched: &Watched) -> Observation {
    if let Some(refused) = &watched.refused {
        return judged(false, refused.shown());
    }
    let base = probe.collection.base.version;
    let events = watched.events.iter();
    let mut old = events.filter(|event| version_of(&event["object"]) <= base);
    let first = old.next().map(|event| version_of(&event["object"]));
    let received = match first {
        Some(version) => format!("an event of {version}, N is {base}"),
        None => format!("{} events, N is {base}", watched.events.len()),
    };
    judged(first.is_none(), received)
}

/// Checks that a watch of one object has events of that object only.
fn alone(probe: &Probe, watched: &Watched) -> Observation {
    let key = &probe.collection.base.items[1].0;
    let objects = watched.events.iter().map(|event| key_of(&event["object"]));
    let objects: Vec<_> = objects.collect();
    let holds = !objects.is_empty() && objects.iter().all(|object| object == key);
    judged(holds, format!("{} events of {objects:?}", objects.len()))
}

fn in_protobuf(probe: &Probe, watched: &Watched) -> Checked {
    match &watched.refused {
        Some(refused) if refused.code == 406 => return Ok(lacking(refused.shown())),
        Some(refused) => return Ok(judged(false, refused.shown())),
        None => {}
    }
    let broken = |what: &dyn std::fmt::Display| CheckError::Broken(what.to_string());
    let mut rest = &watched.bytes[..];
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let frame = after.get(..length);
        let frame =
            frame.ok_or_else(|| broken(&format!("a frame of {length} bytes is cut off")))?;
        rest = &after[length..];
        let kind = find_bytes(frame, 1).map_err(|e| broken(&e))?;
        let raw = find_bytes(frame, 2).and_then(|object| find_bytes(object.unwrap_or_default(), 1));
        let object = raw.map_err(|e| broken(&e))?.unwrap_or_default();
        envelope::open(object).map_err(|e| broken(&e))?;
        let kind = String::from_utf8_lossy(kind.unwrap_or_default()).into_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    let added = kinds.get("ADDED").copied().unwrap_or(0);
    let holds = rest.is_empty() && added >= probe.collection.base.items.len();
    Ok(judged(holds, format!("{kinds:?}")))
}
