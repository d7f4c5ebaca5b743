//! Tests with an API whose responses a test defines.

use std::time::Duration;

use kube_api::client::KubeAccess;

use super::super::super::{Api, Namespaces};
use super::super::Waits;
use super::*;
use crate::progress::{Counted, Progress};
use test_support::scripted_api::{Answer, Scripted};

const NAMESPACE: &str = "/api/v1/namespaces/loadgen-r-0-00000";
const BINDINGS: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/loadgen-r-0-00000/rolebindings";

/// Responds as an API without a namespace controller: a namespace of the run that is being deleted,
/// discovery of two groups, and empty lists.
fn nobody_ends_it(method: &str, path: &str) -> (u16, Value) {
    let found = match (method, path) {
        ("POST", _) => return (201, json!({})),
        ("GET", NAMESPACE) => json!({
            "metadata": {"name": "loadgen-r-0-00000", "uid": "u", "labels": {"loadgen.test/run": "r"}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Terminating"},
        }),
        ("GET", "/api/v1") => json!({"resources": [
            {"name": "pods", "namespaced": true, "verbs": ["list", "get"]},
            {"name": "pods/status", "namespaced": true, "verbs": ["get"]},
            {"name": "nodes", "namespaced": false, "verbs": ["list"]},
            {"name": "bindings", "namespaced": true, "verbs": ["create"]},
        ]}),
        ("GET", "/apis") => json!({"groups": [
            {"name": "rbac.authorization.k8s.io", "versions": [{"groupVersion": "rbac.authorization.k8s.io/v1"}]},
        ]}),
        ("GET", "/apis/rbac.authorization.k8s.io/v1") => json!({"resources": [
            {"name": "rolebindings", "namespaced": true, "verbs": ["list"]},
        ]}),
        _ => json!({"items": []}),
    };
    (200, found)
}

/// Returns the error of a removal, and the requests that the API received.
async fn removed(answer: Answer) -> (String, Vec<String>) {
    let server = Scripted::start(answer);
    let api = Api {
        url: server.url(),
        access: KubeAccess::default(),
    };
    let mut namespaces = Namespaces::new("r", 0, 1);
    namespaces.waits = Waits {
        removed: Duration::from_secs(4),
        controller: Duration::ZERO,
    };
    namespaces.create(&api).await.expect("it is made");
    let phase = Progress::silent().phase("removing", 1, Counted::Namespaces);
    let left = namespaces.remove(&api, "pods", &phase).await;
    // The namespace of these tests is never gone.
    let left = left.expect_err("it is there").to_string();
    (left, server.asked())
}

fn is_ended(asked: &[String]) -> bool {
    asked.contains(&format!("PUT {NAMESPACE}/finalize"))
}

#[tokio::test]
async fn a_namespace_that_holds_nothing_is_ended() {
    let (_, asked) = removed(|method, path, _| nobody_ends_it(method, path)).await;
    assert!(is_ended(&asked), "{asked:?}");
    assert!(asked.contains(&format!("GET {BINDINGS}")), "{asked:?}");
    for path in [
        format!("{NAMESPACE}/nodes"),
        format!("{NAMESPACE}/bindings"),
        format!("{NAMESPACE}/pods/status"),
    ] {
        assert!(!asked.contains(&format!("GET {path}")), "{path}");
    }
}

/// Three kinds of objects were searched; a RoleBinding of another owner would have stayed in the
/// store for ever.
#[tokio::test]
async fn a_namespace_that_holds_anything_of_others_is_not_ended() {
    let (left, asked) = removed(|method, path, _| match (method, path) {
        ("GET", BINDINGS) => (200, json!({"items": [{"metadata": {"name": "theirs"}}]})),
        _ => nobody_ends_it(method, path),
    })
    .await;
    assert!(!is_ended(&asked), "{asked:?}");
    assert!(left.contains("it still holds rolebindings"), "{left}");
}

#[tokio::test]
async fn a_namespace_of_which_nobody_knows_what_it_holds_is_not_ended() {
    let unlisted: Answer = |method, path, _| match (method, path) {
        ("GET", BINDINGS) => (403, json!({"message": "eve may not list"})),
        _ => nobody_ends_it(method, path),
    };
    let unnamed: Answer = |method, path, _| match (method, path) {
        ("GET", "/apis") => (404, json!({"message": "no discovery"})),
        _ => nobody_ends_it(method, path),
    };
    let odd: Answer = |method, path, _| match (method, path) {
        ("GET", "/apis") => (200, json!("odd")),
        _ => nobody_ends_it(method, path),
    };
    for (answer, reason) in [
        (unlisted, "eve may not list"),
        (unnamed, "no discovery"),
        (odd, "/apis has no groups"),
    ] {
        let (left, asked) = removed(answer).await;
        assert!(!is_ended(&asked), "{reason}: {asked:?}");
        assert!(left.contains(reason), "{left}");
    }
}

#[test]
fn finalizers_of_others_stay() {
    let of = |finalizers: Value| json!({"spec": {"finalizers": finalizers}});
    let ended = without_controllers(of(json!(["kubernetes", "example.com/hold"])));
    assert_eq!(ended, Ok(of(json!(["example.com/hold"]))));
    assert_eq!(
        without_controllers(of(json!(["kubernetes"]))),
        Ok(of(json!([])))
    );
    let waits = without_controllers(of(json!(["example.com/hold"])));
    let waits = waits.expect_err("the controller's is gone").to_string();
    assert!(waits.contains("example.com/hold"), "{waits}");
}

#[test]
fn a_namespace_that_its_controller_looks_at_is_not_ours_to_end() {
    let of =
        |phase, conditions: Value| json!({"status": {"phase": phase, "conditions": conditions}});
    assert!(has_no_controller_progress(&of("Terminating", Value::Null)));
    assert!(!has_no_controller_progress(&of("Active", Value::Null)));
    let looked = json!([{"type": "NamespaceDeletionContentFailure", "status": "False"}]);
    assert!(!has_no_controller_progress(&of("Terminating", looked)));
}
