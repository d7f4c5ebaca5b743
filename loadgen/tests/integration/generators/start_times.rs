//! The start of a load of several generators: at the given time, if all generators are ready.

use super::*;

#[test]
fn a_generator_that_is_missing_keeps_the_others_from_beginning() {
    let folder = folder();
    let server = Served::etcd();
    let at = in_seconds(10);
    let (code, _, log) = mixed(folder.path(), &server, &at, "0/2");
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("not begun: of 2 generators 1 were not ready"),
        "{log}"
    );
    assert_eq!(writes(&server), BTreeMap::new(), "nothing is left there");
    // A generator other than the first finds no coordinator, and writes nothing.
    let at = in_seconds(2);
    let (code, _, log) = mixed(folder.path(), &server, &at, "1/2");
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("generator 0/2 has not loaded the objects by"),
        "{log}"
    );
    assert_eq!(writes(&server), BTreeMap::new());
}

#[test]
fn a_load_of_one_generator_begins_when_it_is_told_to() {
    let folder = folder();
    for seconds in BEGINNINGS {
        let at = in_seconds(seconds);
        let args = ["run", "shared.toml", "--cases", "mixed", "--out", "out"];
        let args = [&args[..], &["--start-at", &at]].concat();
        let (code, out, log) = run_to_end(folder.path(), &args);
        if log.contains("not begun") {
            assert_eq!(code, Some(2), "{log}");
            fs::remove_dir_all(folder.path().join("out")).expect("a result");
            continue;
        }
        assert!(matches!(code, Some(0 | 3)), "{log}");
        assert!(out.contains("The load was to begin at"), "{out}");
        // The load lasts two seconds from its start.
        let ended: u64 = in_seconds(0).parse().expect("seconds");
        let began: u64 = at.parse().expect("seconds");
        assert!(ended >= began + 2, "{began} {ended}");
        let report = report(&results(&folder.path().join("out"))[0]);
        assert_eq!(count(&report["shard"]["count"]), 1, "{}", report["shard"]);
        assert!(
            report["shard"]["late_ms"].is_number(),
            "{}",
            report["shard"]
        );
        return;
    }
    panic!("it was never ready in time");
}
