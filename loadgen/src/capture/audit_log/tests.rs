use std::io::Write;

use super::*;

/// Returns a line of a log: `second` is when the stage was reached, a second after the request.
fn line(second: u32, stage: &str, verb: &str, object: &str, query: &str) -> String {
    format!(
        r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"{verb}{query}","stage":"{stage}","requestURI":"/api{query}","verb":"{verb}","user":{{"username":"hannibal"}},"objectRef":{object},"responseStatus":{{"metadata":{{}},"code":200}},"requestReceivedTimestamp":"2026-11-28T10:00:{before:02}.000000Z","stageTimestamp":"2026-11-28T10:00:{second:02}.000000Z"}}"#,
        before = second.saturating_sub(1),
    )
}

fn read(lines: &[String]) -> Result<AuditLog, AuditLogError> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(lines.join("\n").as_bytes())
        .expect("it takes the lines");
    AuditLog::read(file.path())
}

const PODS: &str = r#"{"resource":"pods","apiVersion":"v1"}"#;

#[test]
fn requests_are_counted_by_resource_and_form() {
    let one = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1"}"#;
    let status = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1","subresource":"status"}"#;
    let log_of_pod = r#"{"resource":"pods","namespace":"payroll","name":"a","apiVersion":"v1","subresource":"log"}"#;
    let widgets = r#"{"resource":"widgets","apiGroup":"acme.io","apiVersion":"v1"}"#;
    let log = read(&[
        line(0, "RequestReceived", "get", one, ""),
        line(0, COMPLETE, "get", one, ""),
        line(1, COMPLETE, "patch", status, ""),
        line(1, COMPLETE, "get", log_of_pod, ""),
        line(2, COMPLETE, "list", PODS, "?limit=500"),
        line(3, COMPLETE, "list", PODS, "?limit=500&continue=abc"),
        line(4, COMPLETE, "list", PODS, "?limit=500&resourceVersion=0"),
        line(5, COMPLETE, "list", PODS, "?labelSelector=app%3Dweb"),
        line(6, COMPLETE, "list", widgets, ""),
        // Begun before the log, and ended in it.
        line(10, COMPLETE, "watch", PODS, "?watch=true"),
        line(11, STARTED, "watch", PODS, "?sendInitialEvents=true"),
        line(
            12,
            COMPLETE,
            "watch",
            PODS,
            "?fieldSelector=metadata.name%3Da",
        ),
        line(20, COMPLETE, "delete", one, ""),
    ]);
    let log = log.expect("a log");
    assert_eq!(log.over, Duration::from_secs(20));
    let pods = &log.resources["pods"];
    let lists = ["cached", "paged:500", "watch-list"].map(|by| (by.to_owned(), 1));
    assert_eq!(
        *pods,
        ApiRequests {
            gets: 1,
            patches: 1,
            deletes: 1,
            lists: BTreeMap::from(lists),
            partial_lists: 1,
            partial_watches: 1,
            // One second of the one that ended, ten of the one that is open.
            watched: Duration::from_secs(11),
            ..ApiRequests::default()
        }
    );
    assert_eq!(log.resources["acme.io/widgets"].lists["consistent"], 1);
}

#[test]
fn a_watch_that_failed_was_never_open() {
    let query = "?timeoutSeconds=500";
    let with_status =
        |line: String, code: u16| line.replace(r#""code":200"#, &format!(r#""code":{code}"#));
    let log = read(&[
        line(0, COMPLETE, "get", PODS, ""),
        with_status(
            line(1, STARTED, "watch", PODS, &query.replace('0', "1")),
            410,
        ),
        with_status(
            line(1, COMPLETE, "watch", PODS, &query.replace('0', "1")),
            410,
        ),
        // Nobody who is not authenticated gets further than this.
        with_status(
            line(2, STARTED, "watch", PODS, &query.replace('0', "2")),
            401,
        ),
        // The end comes before the beginning.
        line(5, COMPLETE, "watch", PODS, &query.replace('0', "3")),
        line(4, STARTED, "watch", PODS, &query.replace('0', "3")),
        line(6, PANIC, "watch", PODS, &query.replace('0', "4")),
        // It must have ended after five seconds.
        line(10, STARTED, "watch", PODS, "?timeoutSeconds=5"),
        line(60, COMPLETE, "get", PODS, ""),
    ]);
    let log = log.expect("a log");
    assert_eq!(log.resources["pods"].watched, Duration::from_secs(1 + 5));
    assert_eq!((log.requests, log.failed), (3, 2));
}

#[test]
fn a_write_counts_as_what_it_does() {
    let of = |subresource: &str| {
        format!(r#"{{"resource":"pods","namespace":"n","name":"a","subresource":"{subresource}"}}"#)
    };
    let created = line(4, COMPLETE, "patch", &of(""), "").replace(":200", ":201");
    let taken = line(5, COMPLETE, "create", &of(""), "").replace(":200", ":409");
    let changed = line(6, COMPLETE, "update", &of("status"), "").replace(":200", ":409");
    let log = read(&[
        line(0, COMPLETE, "create", &of("binding"), ""),
        line(1, COMPLETE, "create", &of("eviction"), ""),
        line(2, COMPLETE, "create", &of("exec"), ""),
        line(3, COMPLETE, "patch", &of(""), "?dryRun=All"),
        created,
        taken,
        changed,
        line(7, COMPLETE, "list", PODS, "?shardSelector=shardRange()"),
        line(
            8,
            COMPLETE,
            "list",
            PODS,
            "?resourceVersion=7&resourceVersionMatch=Exact",
        ),
        line(9, COMPLETE, "deletecollection", PODS, ""),
    ]);
    let log = log.expect("a log");
    assert_eq!(
        log.resources["pods"],
        ApiRequests {
            creates: 1,
            updates: 2,
            deletes: 1,
            delete_collections: 1,
            lists: BTreeMap::from([("exact".to_owned(), 1)]),
            partial_lists: 1,
            ..ApiRequests::default()
        }
    );
    assert_eq!(log.failed, 1, "the name of a new object was taken");
}

#[test]
fn errors_have_no_text_of_the_log() {
    let whole = line(0, COMPLETE, "get", PODS, "");
    for (text, says) in [
        (
            r#"{"user":"hannibal"}"#,
            "line 1: no event of audit.k8s.io/v1",
        ),
        (r#"{"user":"hannibal""#, "line 1: no JSON, at column"),
        ("\u{1f}\u{8b}hannibal", "line 1: no JSON"),
        (
            &whole.replace("2026-11-28T10", "hannibal"),
            "line 1: a time is not",
        ),
    ] {
        let error = read(&[text.to_owned(), whole.clone()]).expect_err("no event");
        let error = error.to_string();
        assert!(
            error.contains(says) && !error.contains("hannibal"),
            "{error}"
        );
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(b"\x1f\x8b\x08 and more\nand more\n")
        .expect("it takes the bytes");
    let error = AuditLog::read(file.path())
        .expect_err("no event")
        .to_string();
    assert!(error.contains("compressed by gzip"), "{error}");
}

#[test]
fn a_watch_list_counts_as_a_list_once() {
    let log = read(&[
        line(0, COMPLETE, "get", PODS, ""),
        line(8, STARTED, "watch", PODS, "?sendInitialEvents=true"),
        line(9, COMPLETE, "watch", PODS, "?sendInitialEvents=true"),
    ]);
    let log = log.expect("a log");
    assert_eq!(log.resources["pods"].lists["watch-list"], 1);
}

#[test]
fn only_the_last_line_may_be_cut_short() {
    let whole = [
        line(0, COMPLETE, "get", PODS, ""),
        line(1, COMPLETE, "get", PODS, ""),
    ];
    let cut = whole[0][..90].to_owned();
    let log = read(&[whole[0].clone(), whole[1].clone(), cut.clone()]);
    assert_eq!(log.expect("a log").resources["pods"].gets, 2);
    let error = read(&[whole[0].clone(), cut, whole[1].clone()]);
    let text = error.expect_err("a cut line").to_string();
    assert!(text.contains("line 2:"), "{text}");
    let error = read(&[line(0, COMPLETE, "get", PODS, "")]);
    let text = error.expect_err("no time").to_string();
    assert!(text.contains("fewer than two events"), "{text}");
}

#[test]
fn names_are_those_of_the_keys() {
    let stored_as = |resource: &str, group: &str| {
        let object = ObjectRef {
            resource: resource.to_owned(),
            namespace: String::new(),
            name: String::new(),
            api_group: group.to_owned(),
            subresource: String::new(),
        };
        object.stored_as()
    };
    assert_eq!(stored_as("deployments", "apps"), "deployments");
    assert_eq!(stored_as("leases", "coordination.k8s.io"), "leases");
    assert_eq!(stored_as("nodes", ""), "minions");
    assert_eq!(stored_as("pods", "metrics.k8s.io"), "metrics.k8s.io/pods");
    assert_eq!(stored_as("widgets", "acme.io"), "acme.io/widgets");
    let routes = stored_as("httproutes", "gateway.networking.k8s.io");
    assert_eq!(routes, "gateway.networking.k8s.io/httproutes");
    assert_eq!(stored_as("replicationcontrollers", ""), "controllers");
}
