//! `/health`, `/livez` and `/readyz` with their checks, for load balancers and kubelets.
//!
//! Follows etcd's `etcdhttp/health.go`.

use etcd_api::proto::etcdserverpb::AlarmType;
use http::StatusCode;
use serde_json::json;
use store::Store;

/// The checks of `/livez`. A single member that responds can serve reads.
const LIVE: &[&str] = &["serializable_read"];
/// The checks of `/readyz`. The first fails while the CORRUPT alarm is raised.
const READY: &[&str] = &[
    DATA_CORRUPTION,
    "serializable_read",
    "linearizable_read",
    "non_learner",
];
const DATA_CORRUPTION: &str = "data_corruption";

/// Returns status code and JSON body of `/health`. It fails for any alarm that the query does not
/// exclude.
pub(super) fn health(store: &Store, query: &str) -> (StatusCode, String) {
    let excluded = values(query, "exclude");
    let mut alarms = store.alarms().into_iter().map(|alarm| alarm.as_str_name());
    let alarm = alarms.find(|name| !excluded.iter().any(|excluded| excluded == name));
    let (code, health, reason) = match alarm {
        None => (StatusCode::OK, "true", String::new()),
        Some(name) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "false",
            format!("ALARM {name}"),
        ),
    };
    let body = json!({"health": health, "reason": reason});
    // etcd's errors end with a newline, and its successes do not.
    let end = if code.is_success() { "" } else { "\n" };
    (code, format!("{body}{end}"))
}

/// Returns the response of `/livez`, `/readyz` and the paths below them; `None` for other paths.
pub(super) fn checks(store: &Store, path: &str, query: &str) -> Option<(StatusCode, String)> {
    let (root, single) = match path.strip_prefix('/')?.split_once('/') {
        Some((root, single)) => (root, Some(single)),
        None => (&path[1..], None),
    };
    let all = match root {
        "livez" => LIVE,
        "readyz" => READY,
        _ => return None,
    };
    let excluded = values(query, "exclude");
    let chosen: Vec<&str> = match single {
        Some(single) => vec![all.iter().find(|name| **name == single)?],
        None => {
            let wanted = |name: &&str| !excluded.iter().any(|excluded| excluded == name);
            all.iter().copied().filter(wanted).collect()
        }
    };
    let corrupt = store.alarms().contains(&AlarmType::Corrupt);
    let failed = |name: &str| corrupt && name == DATA_CORRUPTION;
    let report: String = chosen
        .iter()
        .map(|name| match failed(name) {
            true => format!("[-]{name} failed: alarm activated: CORRUPT\n"),
            false => format!("[+]{name} ok\n"),
        })
        .collect();
    if chosen.iter().any(|name| failed(name)) {
        return Some((StatusCode::SERVICE_UNAVAILABLE, report + "\n"));
    }
    let verbose = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "verbose");
    let report = if verbose { report } else { String::new() };
    Some((StatusCode::OK, report + "ok\n"))
}

fn values(query: &str, wanted: &str) -> Vec<String> {
    form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name == wanted)
        .map(|(_, value)| value.into_owned())
        .collect()
}
