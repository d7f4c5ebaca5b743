//! Rules of requests that must be refused, with their status code and reason.

use http::Method;
use kube_api::client::KubeError;
use kube_api::media_type::JSON;

use super::requests::in_query;
use super::rules::*;
use super::{Checked, Probe};
use crate::probe::judged;
use crate::probe::rule::Rule;

/// The distance to a resourceVersion that is not reached while a probe runs.
const AHEAD: u64 = 1_000_000_000;
/// The name of an object that does not exist.
const NOBODY: &str = "loadgen-test-none";

/// Tries these rules.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<(), KubeError> {
    let n = probe.collection.base.version;
    let page = probe.list("limit=2").await;
    let token = page.ok().and_then(|page| page.token);
    let token = in_query(token.as_deref().unwrap_or_default());
    for (rule, query, code, reason) in refused(n, &token) {
        let checked = refusal(probe, &query, code, reason).await;
        probe.note(rule, checked)?;
    }
    let checked = not_found(probe).await;
    probe.note(&ERROR_NOT_FOUND, checked)?;
    let checked = accept(probe).await;
    probe.note(&ERROR_ACCEPT, checked)?;
    let checked = future(probe).await;
    probe.note(&ERROR_FUTURE, checked)?;
    Ok(())
}

/// A rule, a query that must be refused, and the code and reason of the refusal.
type Refused = (&'static Rule, String, u16, &'static str);

/// Returns the queries that must be refused; `n` is the collection's resourceVersion, and `token`
/// continues a list of it.
fn refused(n: u64, token: &str) -> [Refused; 13] {
    let labels = in_query("a in");
    let fields = in_query("spec.none=any");
    [
        (
            &ERROR_MATCH,
            "resourceVersionMatch=NotOlderThan".to_owned(),
            422,
            "Invalid",
        ),
        (
            &ERROR_MATCH_UNKNOWN,
            format!("resourceVersion={n}&resourceVersionMatch=Newest"),
            422,
            "Invalid",
        ),
        (
            &ERROR_EXACT_ZERO,
            "resourceVersion=0&resourceVersionMatch=Exact".to_owned(),
            422,
            "Invalid",
        ),
        (
            &ERROR_MATCH_CONTINUE,
            format!("limit=2&continue={token}&resourceVersion={n}&resourceVersionMatch=Exact"),
            422,
            "Invalid",
        ),
        (
            &ERROR_VERSION_CONTINUE,
            format!("limit=2&continue={token}&resourceVersion={n}"),
            400,
            "BadRequest",
        ),
        (
            &ERROR_INITIAL_EVENTS,
            "sendInitialEvents=true".to_owned(),
            422,
            "Invalid",
        ),
        (
            &ERROR_TOKEN,
            "limit=2&continue=bm8gdG9rZW4".to_owned(),
            400,
            "BadRequest",
        ),
        (&ERROR_LIMIT, "limit=many".to_owned(), 400, "BadRequest"),
        (
            &ERROR_VERSION,
            "resourceVersion=new".to_owned(),
            400,
            "BadRequest",
        ),
        (
            &ERROR_LABELS,
            format!("labelSelector={labels}"),
            400,
            "BadRequest",
        ),
        (
            &ERROR_FIELDS,
            format!("fieldSelector={fields}"),
            400,
            "BadRequest",
        ),
        (
            &ERROR_WATCH_MATCH,
            format!("watch=true&resourceVersion={n}&resourceVersionMatch=NotOlderThan"),
            422,
            "Invalid",
        ),
        (
            &ERROR_WATCH_EXACT,
            format!(
                "watch=true&sendInitialEvents=true&resourceVersion={n}&resourceVersionMatch=Exact"
            ),
            422,
            "Invalid",
        ),
    ]
}

/// Checks that a query is refused with this code and reason. An accepted query may start a watch,
/// so each is sent on a connection of its own.
async fn refusal(probe: &mut Probe, query: &str, code: u16, reason: &str) -> Checked {
    let path = probe.path(query);
    let watched = probe.requests.watch(&path, JSON, |_| true).await?;
    Ok(match watched.refused {
        Some(response) => judged(response.is_status(code, reason), response.shown()),
        None => judged(false, "200"),
    })
}

async fn not_found(probe: &mut Probe) -> Checked {
    let path = probe.object(NOBODY);
    let response = probe.requests.get(&path).await?;
    let is_named = response.json["details"]["name"] == NOBODY;
    let holds = response.is_status(404, "NotFound") && is_named;
    Ok(judged(holds, response.shown()))
}

async fn accept(probe: &mut Probe) -> Checked {
    let path = probe.path("limit=1");
    let none = "application/nothing";
    let sent = probe
        .requests
        .send(Method::GET, &path, none, JSON, String::new());
    let response = sent.await?;
    // Text and format of this response differ between servers.
    Ok(judged(response.code == 406, response.shown()))
}

async fn future(probe: &mut Probe) -> Checked {
    let version = probe.collection.base.version + AHEAD;
    let query = format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan&limit=1");
    let response = probe.get(&query).await?;
    let causes = response.json["details"]["causes"].as_array();
    let mut causes = causes.into_iter().flatten();
    let is_told = causes.any(|cause| cause["reason"] == "ResourceVersionTooLarge");
    let holds = response.is_status(504, "Timeout") && is_told;
    Ok(judged(holds, response.shown()))
}
