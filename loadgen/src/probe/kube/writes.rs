//! Rules that write, into a namespace of the probe's own: one history of a few objects, which
//! [`super::events`] watches afterwards.

use http::Method;
use kube_api::client::KubeError;
use kube_api::media_type::{JSON, JSON_PATCH, MERGE_PATCH};
use serde_json::{Value, json};

use super::requests::{CheckError, Response, in_query};
use super::rules::*;
use super::{Checked, Probe, try_rules};
use crate::probe::judged;

/// The successive values of the object `a`, each with its label `stage`.
pub(super) const FIRST: (&str, &str) = ("first", "one");
pub(super) const SECOND: (&str, &str) = ("second", "two");
/// The value that the patch adds.
pub(super) const MORE: &str = "third";

/// The resourceVersions of the history of `a`; 0 for a step that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct History {
    /// The collection's resourceVersion before the creation.
    pub(super) before: u64,
    /// The resourceVersion of the creation.
    pub(super) created: u64,
    /// The resourceVersion of the change by a PUT.
    pub(super) updated: u64,
    /// The resourceVersion of the change by a patch.
    pub(super) patched: u64,
    /// The resourceVersion of a list after the deletion; the deletion is at this one or earlier.
    pub(super) gone_by: u64,
}

/// Tries these rules, in the order of the history.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<History, KubeError> {
    let mut history = History::default();
    let checked = create(probe, &mut history).await;
    if probe.note(&CREATE, checked)? {
        let checked = your_write(probe, &history).await;
        probe.note(&READ_YOUR_WRITE, checked)?;
        try_rules! { probe: CREATE_TWICE by twice; }
        let checked = update(probe, &mut history).await;
        if probe.note(&UPDATE, checked)? {
            let checked = stale(probe, &history).await;
            probe.note(&UPDATE_STALE, checked)?;
            let checked = same(probe, &history).await;
            probe.note(&UPDATE_SAME, checked)?;
            let checked = patch(probe, &mut history).await;
            probe.note(&PATCH_MERGE, checked)?;
            let checked = stale_patch(probe, &history).await;
            probe.note(&PATCH_STALE, checked)?;
            try_rules! { probe: PATCH_TEST by failed_test; }
            let checked = past(probe, &history).await;
            probe.note(&PAST_STATE, checked)?;
        }
    }
    try_rules! { probe:
        DRY_RUN by dry_run;
        PAGES_SNAPSHOT by snapshot;
        SELECT_LABELS by labels;
    }
    if history.created > 0 {
        let checked = precondition(probe, &json!({"uid": "of-another"})).await;
        probe.note(&DELETE_UID, checked)?;
        let stale = json!({"resourceVersion": history.before.to_string()});
        let checked = precondition(probe, &stale).await;
        probe.note(&DELETE_STALE, checked)?;
        let checked = delete(probe, &mut history).await;
        probe.note(&DELETE, checked)?;
    }
    try_rules! { probe: DELETE_SELECTED by selected; }
    Ok(history)
}

/// Returns a ConfigMap of this name with a value and a label.
fn object(name: &str, (value, stage): (&str, &str)) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"stage": stage}},
        "data": {"value": value},
    })
}

impl Probe {
    async fn post(&mut self, object: &Value, query: &str) -> Result<Response, CheckError> {
        let path = self.path(query);
        let sent = self
            .requests
            .send(Method::POST, &path, JSON, JSON, object.to_string());
        sent.await
    }

    async fn put(&mut self, object: &Value) -> Result<Response, CheckError> {
        let path = self.object("a");
        let sent = self
            .requests
            .send(Method::PUT, &path, JSON, JSON, object.to_string());
        sent.await
    }

    async fn patch(&mut self, media: &'static str, patch: Value) -> Result<Response, CheckError> {
        let path = self.object("a");
        let sent = self
            .requests
            .send(Method::PATCH, &path, JSON, media, patch.to_string());
        sent.await
    }

    /// Deletes `a`, with these options.
    async fn delete(&mut self, options: Value) -> Result<Response, CheckError> {
        let path = self.object("a");
        let sent = self
            .requests
            .send(Method::DELETE, &path, JSON, JSON, options.to_string());
        sent.await
    }

    /// Reads an object.
    async fn read(&mut self, name: &str) -> Result<Response, CheckError> {
        let path = self.object(name);
        self.requests.get(&path).await
    }
}

fn options(preconditions: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})
}

async fn create(probe: &mut Probe, history: &mut History) -> Checked {
    history.before = probe.list("").await?.version;
    let response = probe.post(&object("a", FIRST), "").await?;
    let now = probe.read("a").await?;
    let text = |field: &str| {
        response.json["metadata"][field]
            .as_str()
            .unwrap_or_default()
    };
    let holds = response.code == 201
        && response.version() > history.before
        && !text("uid").is_empty()
        && !text("creationTimestamp").is_empty()
        && now.json == response.json;
    if holds {
        history.created = response.version();
    }
    let received = format!("{}; then {}", response.shown(), now.shown());
    Ok(judged(holds, received))
}

async fn your_write(probe: &mut Probe, history: &History) -> Checked {
    let list = probe.list("").await?;
    let is_there =
        |(key, version): &(String, u64)| key.ends_with("/a") && *version == history.created;
    let holds = list.items.iter().any(is_there) && list.version >= history.created;
    let received = format!("{}, created at {}", list.shown(), history.created);
    Ok(judged(holds, received))
}

async fn twice(probe: &mut Probe) -> Checked {
    let response = probe.post(&object("a", SECOND), "").await?;
    Ok(judged(
        response.is_status(409, "AlreadyExists"),
        response.shown(),
    ))
}

/// Returns `a` with its second value and this resourceVersion.
fn second(version: u64) -> Value {
    let mut second = object("a", SECOND);
    second["metadata"]["resourceVersion"] = version.to_string().into();
    second
}

async fn update(probe: &mut Probe, history: &mut History) -> Checked {
    let before = probe.read("a").await?;
    let response = probe.put(&second(history.created)).await?;
    let holds = response.code == 200
        && response.version() > history.created
        && response.json["data"]["value"] == SECOND.0
        && response.json["metadata"]["uid"] == before.json["metadata"]["uid"];
    if holds {
        history.updated = response.version();
    }
    let received = format!("{}, created at {}", response.shown(), history.created);
    Ok(judged(holds, received))
}

async fn stale(probe: &mut Probe, history: &History) -> Checked {
    let mut old = object("a", FIRST);
    old["metadata"]["resourceVersion"] = history.created.to_string().into();
    let response = probe.put(&old).await?;
    let now = probe.read("a").await?;
    let holds = response.is_status(409, "Conflict") && now.version() == history.updated;
    let received = format!("{}; then {}", response.shown(), now.shown());
    Ok(judged(holds, received))
}

async fn same(probe: &mut Probe, history: &History) -> Checked {
    let as_it_is = probe.read("a").await?.success()?;
    let response = probe.put(&as_it_is.json).await?.success()?;
    let holds = response.version() == history.updated;
    let received = format!("{}, updated at {}", response.shown(), history.updated);
    Ok(judged(holds, received))
}

async fn patch(probe: &mut Probe, history: &mut History) -> Checked {
    let patch = json!({"data": {"more": MORE}});
    let response = probe.patch(MERGE_PATCH, patch).await?;
    let data = &response.json["data"];
    let holds = response.code == 200
        && *data == json!({"value": SECOND.0, "more": MORE})
        && response.version() > history.updated;
    if holds {
        history.patched = response.version();
    }
    Ok(judged(holds, format!("{}, data {data}", response.shown())))
}

async fn stale_patch(probe: &mut Probe, history: &History) -> Checked {
    let version = history.created.to_string();
    let patch = json!({"metadata": {"resourceVersion": version}, "data": {"late": "yes"}});
    let response = probe.patch(MERGE_PATCH, patch).await?;
    Ok(judged(
        response.is_status(409, "Conflict"),
        response.shown(),
    ))
}

async fn failed_test(probe: &mut Probe) -> Checked {
    let before = probe.read("a").await?.version();
    let patch = json!([
        {"op": "test", "path": "/data/value", "value": "another"},
        {"op": "replace", "path": "/data/value", "value": "tested"},
    ]);
    let response = probe.patch(JSON_PATCH, patch).await?;
    let now = probe.read("a").await?.version();
    let holds = response.is_status(422, "Invalid") && now == before;
    Ok(judged(
        holds,
        format!("{}; then at {now}, before {before}", response.shown()),
    ))
}

async fn past(probe: &mut Probe, history: &History) -> Checked {
    let name = in_query("metadata.name=a");
    let version = history.created;
    let query =
        format!("fieldSelector={name}&resourceVersion={version}&resourceVersionMatch=Exact");
    let list = probe.list(&query).await?;
    let value = list
        .objects()
        .first()
        .map(|object| &object["data"]["value"]);
    let holds = list.version == version && value.is_some_and(|value| *value == FIRST.0);
    Ok(judged(
        holds,
        format!("{}, its value {value:?}", list.shown()),
    ))
}

async fn dry_run(probe: &mut Probe) -> Checked {
    let response = probe.post(&object("d", FIRST), "dryRun=All").await?;
    let now = probe.read("d").await?;
    let holds = response.code == 201 && now.is_status(404, "NotFound");
    let received = format!("{}; then {}", response.shown(), now.shown());
    Ok(judged(holds, received))
}

async fn snapshot(probe: &mut Probe) -> Checked {
    let page = probe.list("limit=5").await?;
    // The name sorts after every existing object.
    probe.post(&object("z", FIRST), "").await?.success()?;
    let token = in_query(page.token.as_deref().unwrap_or_default());
    let rest = probe.list(&format!("limit=100&continue={token}")).await?;
    let is_new = |(key, _): &(String, u64)| key.ends_with("/z");
    let is_there = rest.items.iter().any(is_new);
    let holds = rest.version == page.version && !rest.items.is_empty() && !is_there;
    let received = format!(
        "{} after a page at {}, {} what was created between",
        rest.shown(),
        page.version,
        if is_there { "with" } else { "without" }
    );
    Ok(judged(holds, received))
}

async fn labels(probe: &mut Probe) -> Checked {
    let n = probe.collection.base.version;
    let objects = probe.collection.base.objects().iter();
    let parities = objects.filter_map(|object| object["metadata"]["labels"]["parity"].as_str());
    let parities: Vec<_> = parities.map(str::to_owned).collect();
    let all = parities.len();
    let even = parities.iter().filter(|parity| *parity == "even").count();
    let others = probe.collection.base.items.len() - all;
    let selectors = [
        ("parity=even", even),
        ("parity in (even,odd)", all),
        ("read,parity notin (even)", all - even),
        ("parity!=even", others + all - even),
        ("!parity", others),
    ];
    let mut received = Vec::new();
    let mut holds = true;
    for (selector, due) in selectors {
        let query = in_query(selector);
        let query = format!("labelSelector={query}&resourceVersion={n}&resourceVersionMatch=Exact");
        let items = probe.list(&query).await?.items.len();
        holds &= items == due;
        received.push(format!("{selector}: {items} of {due}"));
    }
    Ok(judged(holds, received.join("; ")))
}

/// Checks that a DELETE whose preconditions do not hold is refused and deletes nothing.
async fn precondition(probe: &mut Probe, preconditions: &Value) -> Checked {
    let response = probe.delete(options(preconditions)).await?;
    let now = probe.read("a").await?;
    let holds = response.is_status(409, "Conflict") && now.code == 200;
    let received = format!("{}; then {}", response.shown(), now.shown());
    Ok(judged(holds, received))
}

async fn delete(probe: &mut Probe, history: &mut History) -> Checked {
    let response = probe.delete(options(&json!({}))).await?;
    let now = probe.read("a").await?;
    let holds = response.code == 200 && now.is_status(404, "NotFound");
    if holds {
        history.gone_by = probe.list("").await?.version;
    }
    let received = format!("{}; then {}", response.shown(), now.shown());
    Ok(judged(holds, received))
}

async fn selected(probe: &mut Probe) -> Checked {
    for name in ["s", "t"] {
        let mut swept = object(name, FIRST);
        swept["metadata"]["labels"] = json!({"sweep": "yes"});
        probe.post(&swept, "").await?.success()?;
    }
    let before = probe.list("").await?.items.len();
    let path = probe.path(&format!("labelSelector={}", in_query("sweep=yes")));
    let sent = probe
        .requests
        .send(Method::DELETE, &path, JSON, JSON, String::new());
    let response = sent.await?;
    let after = probe.list("").await?.items;
    let is_swept = |(key, _): &(String, u64)| key.ends_with("/s") || key.ends_with("/t");
    let holds = response.code == 200 && after.len() + 2 == before && !after.iter().any(is_swept);
    let received = format!(
        "{}; {before} objects, then {}",
        response.shown(),
        after.len()
    );
    Ok(judged(holds, received))
}
