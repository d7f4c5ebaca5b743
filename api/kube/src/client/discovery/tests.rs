//! The resource types that names mean on a server with the usual groups, by both forms of
//! documents.

use serde_json::{Value, json};

use super::documents::{Index, ResourceList};
use super::*;

/// Group, versions with the preferred one first, and the resources of every version: name,
/// singular, short name, kind, and whether it can be listed.
type Table = [(
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str, &'static str, &'static str, bool)],
)];

const SERVED: &Table = &[
    (
        "",
        &["v1"],
        &[
            ("pods", "pod", "po", "Pod", true),
            ("events", "event", "ev", "Event", true),
            ("bindings", "binding", "", "Binding", false),
        ],
    ),
    (
        "apps",
        &["v1", "v1beta1"],
        &[("deployments", "deployment", "deploy", "Deployment", true)],
    ),
    (
        "events.k8s.io",
        &["v1"],
        &[("events", "event", "ev", "Event", true)],
    ),
    (
        "metrics.k8s.io",
        &["v1beta1"],
        &[("pods", "", "", "PodMetrics", true)],
    ),
    (
        "example.com",
        &["v1"],
        &[("widgets", "widget", "", "Widget", true)],
    ),
    (
        "other.example",
        &["v2", "v1"],
        &[
            ("widgets", "widget", "", "Widget", true),
            ("gauges", "gauge", "po", "Gauge", true),
        ],
    ),
    (
        "authentication.k8s.io",
        &["v1"],
        &[("tokenreviews", "tokenreview", "", "TokenReview", false)],
    ),
];

fn verbs(is_listed: bool) -> &'static [&'static str] {
    match is_listed {
        true => &["create", "list"],
        false => &["create"],
    }
}

fn parsed<T: serde::de::DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).expect("a document")
}

/// Returns the groups as read from one aggregated document.
fn aggregated() -> Vec<Group> {
    let items = SERVED.iter().map(|(group, versions, resources)| {
        let resources = resources.iter();
        let resources = resources.map(|(name, singular, short, kind, listed)| {
            json!({"resource": name, "singularResource": singular, "shortNames": [short],
                "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": verbs(*listed)})
        });
        let resources: Vec<Value> = resources.collect();
        let versions = versions.iter().map(
            |version| json!({"version": version, "freshness": "Current", "resources": resources}),
        );
        let versions: Vec<Value> = versions.collect();
        match *group {
            "" => json!({"metadata": {}, "versions": versions}),
            group => json!({"metadata": {"name": group}, "versions": versions}),
        }
    });
    let items: Vec<Value> = items.collect();
    parsed::<Index>(json!({"kind": "APIGroupDiscoveryList", "items": items})).groups()
}

/// Returns the groups as read from a separate document for each version.
fn one_by_one() -> Vec<Group> {
    let names = SERVED.iter().skip(1).map(|(group, versions, _)| {
        // The preferred version need not be the first.
        let mut listed: Vec<Value> = versions.iter().map(|v| json!({"version": v})).collect();
        listed.reverse();
        json!({"name": group, "versions": listed, "preferredVersion": {"version": versions[0]}})
    });
    let names: Vec<Value> = names.collect();
    let core = parsed::<Index>(json!({"kind": "APIVersions", "versions": ["v1"]})).groups();
    let others = parsed::<Index>(json!({"kind": "APIGroupList", "groups": names})).groups();
    let mut groups: Vec<Group> = core.into_iter().chain(others).collect();
    for (group, (_, _, resources)) in groups.iter_mut().zip(SERVED) {
        let entries = resources.iter();
        let entries = entries.flat_map(|(name, singular, short, kind, listed)| {
            [
                json!({"name": name, "singularName": singular, "shortNames": [short],
                    "kind": kind, "namespaced": true, "verbs": verbs(*listed)}),
                json!({"name": format!("{name}/status"), "singularName": "", "kind": kind,
                    "namespaced": true, "verbs": ["get", "list"]}),
            ]
        });
        let entries: Vec<Value> = entries.collect();
        for version in &mut group.versions {
            let list = parsed::<ResourceList>(json!({"resources": entries}));
            version.resources = Some(list.resources());
        }
    }
    groups
}

fn meant(text: &str, groups: &[Group]) -> Result<String, String> {
    let name: ResourceName = text.parse().expect("a name");
    match choose(&name, groups) {
        Ok(Some(found)) => Ok(found.name.to_string()),
        Ok(None) => Err(DiscoveryError::Unknown {
            suggestion: suggestion(&name.readings(), groups),
            name,
            silent: Vec::new(),
        }
        .to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn names_mean_what_they_mean_to_kubectl() {
    for groups in [aggregated(), one_by_one()] {
        for (text, expected) in [
            ("pods", "pods"),
            ("pod", "pods"),
            ("Pod", "pods"),
            ("pods.v1.", "pods"),
            // The core group takes precedence over others.
            ("po", "pods"),
            ("events", "events"),
            ("events.events.k8s.io", "events.v1.events.k8s.io"),
            ("pods.metrics.k8s.io", "pods.v1beta1.metrics.k8s.io"),
            ("podmetrics", "pods.v1beta1.metrics.k8s.io"),
            ("deployments", "deployments.v1.apps"),
            ("deployments.apps", "deployments.v1.apps"),
            ("deploy.apps", "deployments.v1.apps"),
            ("deployments.v1.apps", "deployments.v1.apps"),
            ("deployments.v1beta1.apps", "deployments.v1beta1.apps"),
            ("widgets.example.com", "widgets.v1.example.com"),
            ("widgets.other.example", "widgets.v2.other.example"),
            ("widgets.v1.other.example", "widgets.v1.other.example"),
        ] {
            assert_eq!(meant(text, &groups), Ok(expected.to_owned()), "{text}");
        }
    }
}

#[test]
fn names_that_mean_nothing_or_too_much_are_refused_in_one_line() {
    for groups in [aggregated(), one_by_one()] {
        for (text, expected) in [
            (
                "widgets",
                "several groups have a resource `widgets`: name one of widgets.example.com, widgets.other.example",
            ),
            (
                "deploymens",
                "has no resource `deploymens`, did you mean `deployments.apps`?",
            ),
            (
                "deployments.v2.apps",
                "has no resource `deployments.v2.apps`, did you mean `deployments.apps`?",
            ),
            (
                "widget.exmaple.com",
                "has no resource `widget.exmaple.com`, did you mean `widgets.example.com`?",
            ),
            (
                "certificatesigningrequests",
                "has no resource `certificatesigningrequests` (`kubectl api-resources` lists what there is)",
            ),
            (
                "tokenreviews",
                "`tokenreviews.authentication.k8s.io` cannot be listed: the server offers create",
            ),
            (
                "bindings",
                "`bindings` cannot be listed: the server offers create",
            ),
        ] {
            let error = meant(text, &groups).expect_err(text);
            assert_eq!(error, expected, "{text}");
        }
    }
}

#[test]
fn versions_that_say_nothing_are_named() {
    let error = DiscoveryError::Unknown {
        name: "gadgets".parse().expect("a name"),
        suggestion: Some("gauges.other.example".to_owned()),
        silent: vec!["metrics.k8s.io/v1beta1".to_owned()],
    };
    assert_eq!(
        error.to_string(),
        "has no resource `gadgets`, did you mean `gauges.other.example`? (nothing is known of metrics.k8s.io/v1beta1)"
    );
}
