//! A write is visible only once it is as durable as `--fsync` says, and no caller waits for a log
//! that has failed.

use super::*;
use crate::watch_hub::{Notice, WatchSpec};

/// Waits until the log's thread has written `record` and is blocked in the sync.
fn until_written(disk: &SimulatedDisk, record: &str) {
    let written = |name: &String| {
        let contents = disk.contents(name);
        contents
            .windows(record.len())
            .any(|bytes| bytes == record.as_bytes())
    };
    until("the log has it", || names(disk, ".log").iter().any(written));
}

#[test]
fn reads_and_watches_see_only_what_is_durable() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, Fsync::Always);
    let before = dump(&store);
    let stream = store.watch();
    let spec = WatchSpec {
        key: b"a".to_vec(),
        ..WatchSpec::default()
    };
    stream.create(spec).expect("a watcher");
    let next = || {
        let mut context = Context::from_waker(Waker::noop());
        stream.poll_next(&mut context)
    };
    assert!(matches!(
        next(),
        Poll::Ready(Notice::Created { revision: 1, .. })
    ));
    disk.hold_syncs();
    store.put(&put("a", "one", 0)).expect("it is accepted");
    until_written(&disk, "one");
    assert!(!is_ready(store.logged(Ok(()))));
    assert_eq!(
        dump(&store),
        before,
        "it is in the operating system's hands, and shown"
    );
    assert!(next().is_pending(), "a watcher was told");
    assert_eq!(store.snapshot_at(2).err(), Some(Refusal::FutureRevision));
    // Later writes see it and wait for it. So do errors, because they reveal it.
    let put = PutRequest {
        prev_kv: true,
        ..put("a", "two", 0)
    };
    let response = store.put(&put).expect("it is accepted");
    assert_eq!(response.header.expect("a header").revision, 3);
    let prev = response.prev_kv.expect("the first");
    assert_eq!((&prev.value[..], prev.mod_revision), (&b"one"[..], 2));
    let range = store
        .delete_range(&delete("a", "z"))
        .expect("it is accepted");
    assert_eq!(range.deleted, 1);
    let missing = PutRequest {
        ignore_value: true,
        value: bytes::Bytes::new(),
        ..put
    };
    let refused = store.put(&missing);
    assert_eq!(refused, Err(Refusal::KeyNotFound));
    assert!(!is_ready(store.logged(refused.clone())));
    disk.release_syncs();
    assert_eq!(logged(&store, refused), Err(Refusal::KeyNotFound));
    assert_eq!(store.revision(), 4);
    let Poll::Ready(Notice::Events(told)) = next() else {
        panic!("no event");
    };
    assert_eq!(told.revision, 2);
}

#[test]
fn without_syncs_a_write_waits_for_the_operating_system_alone() {
    let hour = std::time::Duration::from_secs(3600);
    for fsync in [Fsync::Never, Fsync::Batch(hour)] {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk, fsync);
        disk.hold_syncs();
        store.put(&put("a", "one", 0)).expect("it is accepted");
        logged(&store, Ok(())).expect("it is written");
        assert_eq!(store.revision(), 2);
        disk.release_syncs();
    }
}

/// A store in memory only never waits.
#[test]
fn without_a_log_nothing_waits() {
    let store = Store::new(Config::default());
    store.put(&put("a", "one", 0)).expect("a put");
    assert!(is_ready(store.logged(Ok(()))));
    assert!(!is_ready(store.log_failed()));
    store.close_log();
}

#[test]
fn batch_syncs_without_another_write() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, Fsync::Batch(std::time::Duration::from_millis(1)));
    let before = disk.calls();
    store.put(&put("a", "one", 0)).expect("it is accepted");
    logged(&store, Ok(())).expect("it is written");
    // A write and a sync.
    until("it is synced", || disk.calls() >= before + 2);
    std::mem::forget(store);
    disk.cut_power();
    assert_eq!(open(&disk, Fsync::Always).revision(), 2);
}

#[test]
fn a_log_that_fails_shows_and_answers_nothing_more() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, Fsync::Always);
    let outcome = store.put(&put("a", "one", 0));
    logged(&store, outcome).expect("a put");
    disk.fail_sync_after(0);
    let outcome = store.put(&put("a", "two", 0));
    assert_eq!(logged(&store, outcome), Err(Refusal::Stopped));
    let told = block_on(store.log_failed());
    assert_eq!(told, "cannot sync 0000000000000001.log: input/output error");
    let outcome = store.put(&put("a", "three", 0));
    assert_eq!(
        logged(&store, outcome),
        Err(Refusal::Stopped),
        "not tried again"
    );
    assert_eq!(store.revision(), 2, "what is shown is what was durable");
}

#[test]
fn a_full_disk_is_an_error_of_the_log() {
    let disk = SimulatedDisk::new(1);
    disk.fill_up_after(2048);
    let store = open(&disk, Fsync::Always);
    let mut acknowledged = 1;
    let refused = (0..).find_map(|number| {
        let outcome = store.put(&put(&format!("key {number}"), &"x".repeat(100), 0));
        let answered = logged(&store, outcome);
        acknowledged += i64::from(answered.is_ok());
        answered.err()
    });
    assert_eq!(refused, Some(Refusal::Stopped));
    let told = block_on(store.log_failed());
    assert!(told.starts_with("cannot create and reserve"), "{told}");
    assert!(acknowledged > 5, "a segment holds some");
    drop(store);
    disk.restart();
    assert_eq!(open(&disk, Fsync::Always).revision(), acknowledged);
}
