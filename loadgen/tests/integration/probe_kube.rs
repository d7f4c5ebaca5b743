//! `loadgen probe` of a Kubernetes API: bench-server keeps every rule, each rule is reported as
//! broken if a server breaks it, and existing objects are only read, and only a few of them.

mod kube_lies;
mod kube_request;
mod lying_kube;

use std::sync::Mutex;
use std::thread;

use serde_json::json;

use self::kube_lies::KubeLie;
use self::lying_kube::{LyingKube, writes};
use crate::support::probed::{probe, rules};
use crate::support::served::Served;

/// Number of concurrent probes: a probe spends most of its time waiting for watches to end.
const CONCURRENT_REQUESTS: usize = 8;

/// Creates ConfigMaps in a namespace.
fn config_maps(server: &Served, namespace: &str, count: usize) {
    for i in 0..count {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("theirs-{i:03}")},
        });
        server.post(
            &format!("/api/v1/namespaces/{namespace}/configmaps"),
            &object,
        );
    }
}

#[track_caller]
fn assert_honours_all(target: &str) {
    let (code, document, log) = probe(target, &["--tier", "kube"]);
    assert_eq!(code, Some(0), "{document:#} {log}");
    let rules_of = |verdict| rules(&document, verdict);
    assert_eq!(rules_of("broken"), Vec::<&str>::new(), "{document:#}");
    assert_eq!(rules_of("not_tried"), Vec::<&str>::new(), "{document:#}");
    assert_eq!(rules_of("lacking"), Vec::<&str>::new(), "{document:#}");
    assert_eq!(
        document["counts"]["honoured"],
        KubeLie::ALL.len(),
        "{document:#}"
    );
    assert_eq!(document["api"], "kubernetes");
}

#[test]
fn our_own_tier_honours_every_rule() {
    assert_honours_all("bench");
}

#[test]
fn our_tier_in_front_of_etcd_honours_every_rule() {
    let Some(program) = test_support::program_or_skip("ETCD_BIN", "etcd") else {
        return;
    };
    assert_honours_all(&format!("bench+etcd:{}", program.display()));
}

#[test]
fn every_rule_is_found_broken_where_a_server_breaks_it() {
    let lies = Mutex::new(KubeLie::ALL.iter());
    let missed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..CONCURRENT_REQUESTS {
            scope.spawn(|| {
                loop {
                    let Some(lie) = lies.lock().expect("no panic holds it").next() else {
                        return;
                    };
                    let server = Served::kube();
                    let lying = LyingKube::start(&server.url, *lie);
                    let (code, document, log) = probe(&lying.target(), &["--seed-data"]);
                    let is_found = rules(&document, "broken").contains(&lie.rule());
                    if !is_found || code != Some(1) {
                        let found = &document["rules"];
                        let rule = found.as_array().and_then(|rules| {
                            rules.iter().find(|finding| finding["rule"] == lie.rule())
                        });
                        let missed_one = format!("{lie:?}: exit {code:?}, {rule:?} {log}");
                        missed.lock().expect("no panic holds it").push(missed_one);
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("no panic holds it");
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn what_is_somebodys_is_only_read_unless_it_is_allowed() {
    let server = Served::kube();
    config_maps(&server, "default", 6);
    let namespaces = server.names("namespaces");
    let relay = LyingKube::start(&server.url, KubeLie::None);
    let (code, document, log) = probe(&relay.target(), &[]);
    assert_eq!(code, Some(0), "{document:#} {log}");
    assert_eq!(document["wrote"], false);
    let wrote: Vec<_> = relay
        .asked()
        .into_iter()
        .filter(|line| writes(line))
        .collect();
    assert_eq!(wrote, Vec::<String>::new());
    assert_eq!(
        rules(&document, "broken"),
        Vec::<&str>::new(),
        "{document:#}"
    );
    assert!(
        rules(&document, "honoured").contains(&"watch-list"),
        "{document:#}"
    );
    assert!(
        rules(&document, "not_tried").contains(&"create"),
        "{document:#}"
    );

    let (code, document, log) = probe(&relay.target(), &["--seed-data"]);
    assert_eq!(code, Some(0), "{document:#} {log}");
    assert_eq!(document["wrote"], true);
    assert!(
        rules(&document, "honoured").contains(&"create"),
        "{document:#}"
    );
    assert!(relay.asked().iter().any(|line| writes(line)));
    assert_eq!(server.names("namespaces"), namespaces, "ours is gone again");
    assert_eq!(server.names("configmaps").len(), 6);
}

/// An apiserver ignores a limit at resourceVersion 0, so a large collection must not be listed at
/// all.
#[test]
fn a_collection_that_is_large_is_counted_and_not_read() {
    let server = Served::kube();
    config_maps(&server, "default", 201);
    let relay = LyingKube::start(&server.url, KubeLie::None);
    let (code, document, log) = probe(&relay.target(), &[]);
    assert_eq!(code, Some(0), "{document:#} {log}");
    let asked = relay.asked();
    let large = asked
        .iter()
        .filter(|line| line.contains("/default/configmaps"));
    assert_eq!(
        large.collect::<Vec<_>>(),
        ["GET /api/v1/namespaces/default/configmaps?limit=3"],
        "{asked:#?}"
    );
    assert_eq!(rules(&document, "honoured"), ["version"], "{document:#}");
    let why = &document["rules"][1]["came"];
    assert!(
        why.as_str()
            .is_some_and(|why| why.contains("no small collection")),
        "{why}"
    );
}

#[test]
fn an_api_that_a_target_has_not_is_refused() {
    let (code, _, log) = probe("kube:http://127.0.0.1:1", &["--tier", "etcd"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("does not speak etcd's protocol"), "{log}");
}
