//! The first of several generators is interrupted: it reports that, the others end, and nothing is
//! left on the server.

use super::*;

/// Sends SIGINT.
pub(crate) fn interrupt(child: &Child) {
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).expect("it runs");
}

/// Runs two generators and interrupts the first during the load; returns the server and the outcome
/// of each.
fn first_interrupted(folder: &Path, seconds: u64) -> (Served, [End; 2]) {
    let server = Served::etcd();
    let at = in_seconds(seconds);
    let start = |shard: &str| -> Child {
        loadgen(folder, &of_case("mixed", &server))
            .args(["--shard", shard, "--start-at", &at, "--out", "shards"])
            .args(["--duration", "300s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let children = ["0/2", "1/2"].map(start);
    // By this time, the load has started, or will not start.
    thread::sleep(Duration::from_secs(seconds + 2));
    interrupt(&children[0]);
    let ends = children.map(ended_soon);
    (server, ends)
}

#[test]
fn an_interrupted_first_generator_ends_the_others() {
    let folder = folder();
    for seconds in BEGINNINGS {
        fs::remove_dir_all(folder.path().join("shards")).ok();
        let (server, [first, other]) = first_interrupted(folder.path(), seconds);
        let was_late = |log: &str| log.contains("not begun") || log.contains("has not loaded");
        if was_late(&first.2) || was_late(&other.2) {
            continue;
        }
        let (code, _, log) = &first;
        assert_eq!(*code, Some(130), "{log}");
        let says = "interrupted: the other generators are told to end, and the objects removed";
        assert!(log.contains(says), "{log}");
        assert!(
            !log.contains("are not done"),
            "the other was in time: {log}"
        );
        let (code, _, log) = &other;
        assert_eq!(*code, Some(130), "{log}");
        assert!(log.contains("generator 0 was interrupted"), "{log}");
        assert_eq!(writes(&server), BTreeMap::new(), "nothing is left there");
        for result in results(&folder.path().join("shards")) {
            let report = report(&result);
            assert_eq!(report["interrupted"], true, "{}", result.display());
            let load = load(&report, "small");
            assert_eq!(count(&load["errors"]), 0, "{load}");
        }
        return;
    }
    panic!("they were never ready in time");
}
