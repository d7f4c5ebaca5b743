//! Names of resources that cannot be listed: one message and exit code 2, before anything is
//! listed.

use crate::resources::fake_api::{FakeApi, Fault};
use crate::resources::{SCENARIO, run, tier};
use crate::support::served::Served;

#[track_caller]
fn assert_refused(url: &str, more: &[&str], says: &[&str]) {
    let (code, _, log) = run(SCENARIO, url, more);
    assert_eq!(code, Some(2), "{more:?}: {log}");
    for word in says {
        assert!(log.contains(word), "{more:?}: no `{word}` in {log}");
    }
    let errors = log.lines().filter(|line| line.starts_with("error:"));
    assert_eq!(errors.count(), 1, "one line: {log}");
}

#[test]
fn a_name_that_means_nothing_gets_its_neighbour() {
    let server = FakeApi::start(Fault::None);
    let url = server.url();
    for (name, says) in [
        ("widgest.example.com", "did you mean `widgets.example.com`?"),
        (
            "widgets.v3.example.com",
            "did you mean `widgets.example.com`?",
        ),
        ("podss", "did you mean `pods`?"),
        // The group that does not respond may have this resource.
        (
            "horizontalpodautoscalers",
            "nothing is known of metrics.k8s.io/v1beta1",
        ),
        (
            "horizontalpodautoscalers",
            "`kubectl api-resources` lists what there is",
        ),
    ] {
        let named = ["--resource", name];
        assert_refused(
            &url,
            &named,
            &[&format!("has no resource `{name}`"), says, &url],
        );
    }
    let listed = |request: &String| request.ends_with("/widgets") || request.ends_with("/pods");
    assert!(
        !server.requests().iter().any(listed),
        "{:?}",
        server.requests()
    );
}

#[test]
fn what_is_ambiguous_or_cannot_be_listed_is_refused() {
    let server = FakeApi::start(Fault::None);
    let url = server.url();
    assert_refused(
        &url,
        &["--resource", "widgets"],
        &["name one of widgets.example.com, widgets.other.example"],
    );
    assert_refused(
        &url,
        &["--resource", "locks.example.com"],
        &["`locks.example.com` cannot be listed: the server offers create"],
    );
    assert_refused(
        &url,
        &["--resource", "bindings"],
        &["`bindings` cannot be listed"],
    );
    assert_refused(
        &url,
        &["--resource", "nodes", "--namespace", "a"],
        &["nodes are in no namespace: leave --namespace out"],
    );
    // The resource exists, but its lists are refused.
    assert_refused(
        &url,
        &["--resource", "pods"],
        &["GET /api/v1/pods?limit=1: 404"],
    );
}

#[test]
fn targets_that_have_something_else_are_refused() {
    let (one, other) = (
        FakeApi::start(Fault::None),
        FakeApi::start(Fault::PrefersOlder),
    );
    let second = format!("kube:{}", other.url());
    let named = ["--target", &second, "--resource", "widgets.example.com"];
    assert_refused(
        &one.url(),
        &named,
        &[
            "widgets.v1.example.com of kind Widget",
            "widgets.v1beta1.example.com of kind Widget",
            "one run compares servers, not resources",
        ],
    );
    let tier = tier();
    let second = format!("kube:{}", tier.url);
    let named = ["--target", &second, "--resource", "widgets.example.com"];
    assert_refused(
        &one.url(),
        &named,
        &[
            &tier.url,
            "has no resource `widgets.example.com`, did you mean `widgets.bench.example.com`?",
        ],
    );
}

#[test]
fn what_has_no_kubernetes_api_is_refused() {
    let named = ["--resource", "pods"];
    assert_refused("http://127.0.0.1:1", &named, &["127.0.0.1:1"]);
    let etcd = Served::etcd();
    assert_refused(&etcd.url, &named, &[&etcd.url]);
    let api = FakeApi::start(Fault::None);
    for (flag, value) in [("--resource", "pods"), ("--namespace", "a")] {
        assert_refused(
            &api.url(),
            &["--target", "bench", flag, value],
            &[flag, "`bench` is none"],
        );
    }
}
