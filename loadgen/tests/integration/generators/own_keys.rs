//! Keys and leases that loads create on an existing etcd: they are deleted afterwards, and others
//! are not changed.

use etcd_api::proto::etcdserverpb::LeaseLeasesRequest;

use super::*;

/// Returns the number of leases on the server.
fn leases(server: &Served) -> usize {
    asked(server, async |client| {
        let leases = client.lease().lease_leases(LeaseLeasesRequest {}).await;
        leases.expect("a response").into_inner().leases.len()
    })
}

/// Returns the number of requests of each kind of a load.
fn kinds(report: &Value, name: &str) -> Vec<(String, u64)> {
    let kinds = load(report, name)["kinds"].as_array().cloned();
    let kinds = kinds.unwrap_or_default().into_iter();
    kinds
        .map(|kind| (kind["operation"].to_string(), count(&kind["requests"])))
        .collect()
}

#[test]
fn what_loads_make_on_an_etcd_that_is_there_is_removed() {
    let folder = folder();
    let server = Served::etcd();
    let args = of_case("owned", &server);
    let kept = [&args[..], &["--out", "kept", "--keep-data"]].concat();
    let (code, _, log) = run_to_end(folder.path(), &kept);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let made = |keys: &BTreeMap<String, i64>, load: &str| {
        let part = format!("/created/owned/{load}/");
        keys.keys().filter(|key| key.contains(&part)).count()
    };
    let keys = writes(&server);
    for load in ["pods", "ranges"] {
        assert!(
            made(&keys, load) > 0,
            "there was something to remove: {keys:?}"
        );
    }
    assert_eq!(leases(&server), 0, "nothing keeps a lease");
    let report = report(&results(&folder.path().join("kept"))[0]);
    let of_leases = kinds(&report, "leases");
    assert_eq!(of_leases.len(), 3, "{of_leases:?}");
    assert!(
        of_leases.iter().all(|(_, requests)| *requests > 0),
        "{of_leases:?}"
    );

    let server = Served::etcd();
    let args = [&of_case("owned", &server)[..], &["--out", "gone"]].concat();
    let (code, _, log) = run_to_end(folder.path(), &args);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert_eq!(writes(&server), BTreeMap::new());
    assert_eq!(leases(&server), 0);
}

#[test]
fn where_somebody_has_keys_no_others_are_made_beside_the_objects() {
    let folder = folder();
    let server = Served::etcd();
    put(&server, "/somebodys");
    let args = of_case("owned", &server);
    let allowed = ["--seed-data", "--yes", "--pause", "50ms", "--out", "out"];
    let (code, _, log) = run_to_end(folder.path(), &[&args[..], &allowed].concat());
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("N/A: it makes keys or leases beside the objects"),
        "{log}"
    );
    let left = BTreeMap::from([("/somebodys".to_owned(), 1)]);
    assert_eq!(writes(&server), left);
}

#[test]
fn generators_that_make_keys_together_make_those_of_one() {
    let folder = folder();
    let server = Served::etcd();
    let args = [&of_case("owned", &server)[..], &["--out", "whole"]].concat();
    let (code, _, log) = run_to_end(folder.path(), &args);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let whole = report(&results(&folder.path().join("whole"))[0]);

    let (server, ends) = together(folder.path(), "owned", &[]);
    assert_eq!(writes(&server), BTreeMap::new(), "all is removed: {ends:?}");
    assert_eq!(leases(&server), 0, "{ends:?}");
    let merge = ["merge", "shards", "--out", "merged"];
    let (code, _, log) = run_to_end(folder.path(), &merge);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let merged = report(&results(&folder.path().join("merged"))[0]);
    for name in ["pods", "ranges", "leases"] {
        assert_eq!(kinds(&merged, name), kinds(&whole, name), "{name}");
        assert_eq!(count(&load(&merged, name)["errors"]), 0, "{name}");
    }
    // Watchers receive updates, but not creates and deletes.
    let updates = kinds(&merged, "pods");
    let watchers = load(&merged, "watchers");
    assert!(
        updates.contains(&("\"update\"".to_owned(), count(&watchers["requests"]))),
        "{watchers}"
    );
}
