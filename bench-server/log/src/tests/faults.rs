//! A disk that fails or fills up: after the first error there are no further calls, and nothing
//! acknowledged is lost.

use super::*;

#[test]
fn a_full_disk_is_said_and_the_half_record_is_cut_off() {
    let disk = SimulatedDisk::new(1);
    // Room for a first segment, and for a record beyond its end.
    disk.fill_up_after(2048 + 100);
    let mut found = open(&disk, SMALL).expect("room for a segment");
    let expected = fill(&mut found.log, 0..10, 150);
    let refused = found.log.append(&payload(10, 5000)).expect_err("no room");
    let told = refused.to_string();
    assert!(
        told.starts_with("cannot create and reserve 0000000000000002.log.tmp"),
        "{told}"
    );
    assert!(matches!(found.log.write(), Err(LogError::Failed)));
    assert!(matches!(found.log.sync(), Err(LogError::Failed)));
    disk.restart();
    let found = open(&disk, SMALL).expect("room again");
    assert_eq!(found.records, expected);
    assert_eq!(found.recovery.cut, None);
}

/// A file system may reserve space that it then does not have.
#[test]
fn a_write_that_finds_no_room_leaves_no_half_record() {
    let disk = SimulatedDisk::new(1);
    let tiny = Config {
        segment_bytes: 0,
        ..SMALL
    };
    let mut found = open(&disk, tiny).expect("room for a header");
    disk.fill_up_after(1000);
    found.log.append(&payload(0, 2000)).expect("it waits");
    let told = found.log.write().expect_err("no room").to_string();
    assert!(
        told.starts_with("cannot write to 0000000000000001.log: "),
        "{told}"
    );
    let left = disk.contents("0000000000000001.log").len();
    assert_eq!(left, 64, "the header alone");
    disk.restart();
    let found = open(&disk, tiny).expect("room again");
    assert!(found.records.is_empty());
    assert_eq!(found.recovery.cut, None, "nothing half is left");
}

/// Linux reports a failed sync once and then marks the pages as clean: they are readable, but not
/// on the disk.
#[test]
fn what_a_failed_sync_dropped_is_written_anew_by_the_next_start() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    let mut expected = fill(&mut found.log, 0..3, 100);
    expected.push(payload(3, 900));
    found.log.append(&expected[3]).expect("room");
    found.log.write().expect("room");
    disk.fail_sync_after(0);
    assert!(found.log.sync().is_err());
    assert!(
        matches!(found.log.sync(), Err(LogError::Failed)),
        "not again"
    );
    disk.restart();
    let found = open(&disk, SMALL).expect("a log");
    assert_eq!(found.records, expected, "the page cache still shows it");
    disk.cut_power();
    let found = open(&disk, SMALL).expect("a log");
    assert_eq!(found.records, expected, "it was served meanwhile");
}

#[test]
fn after_a_failed_call_nothing_is_written() {
    for calls in 0..30 {
        let disk = SimulatedDisk::new(calls);
        let mut found = open(&disk, SMALL).expect("a new log");
        disk.fail_after(calls);
        let mut acknowledged = Vec::new();
        let failed = (0..20).find(|number| {
            let payload = payload(*number, 300);
            let appended = found.log.append(&payload);
            let outcome = appended.and_then(|()| found.log.write());
            match outcome.and_then(|()| found.log.sync()) {
                Ok(()) => acknowledged.push(payload),
                Err(_) => return true,
            }
            false
        });
        assert!(failed.is_some(), "{calls} calls are not enough for all");
        let before = disk.calls();
        for _ in 0..2 {
            assert!(matches!(found.log.append(b"x"), Err(LogError::Failed)));
            assert!(matches!(found.log.rotate(), Err(LogError::Failed)));
        }
        assert_eq!(disk.calls(), before);
        disk.cut_power();
        let found = open(&disk, SMALL).expect("a log");
        assert!(found.records.starts_with(&acknowledged));
    }
}
