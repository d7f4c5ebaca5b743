//! A restart restores everything: revisions, versions, leases, compaction, alarms, events for
//! watches.

use super::*;
use crate::watch_hub::{Notice, WatchSpec};

/// Makes one write of every kind.
fn write(store: &Store) {
    store.lease_grant(7, 100, Instant::now()).expect("a lease");
    store.lease_grant(8, 200, Instant::now()).expect("a lease");
    store.lease_grant(9, 300, Instant::now()).expect("a lease");
    for round in 0..3 {
        store
            .put(&put("a", &format!("value {round}"), 0))
            .expect("a put");
        store.put(&put("leased", "x", 7 + round)).expect("a put");
    }
    store.put(&put("b", "", 8)).expect("a put");
    store.delete_range(&delete("a", "")).expect("a delete");
    store.put(&put("a", "again", 8)).expect("a put");
    let both = txn(vec![
        Request::RequestPut(put("c", "1", 0)),
        Request::RequestDeleteRange(delete("leased", "")),
        Request::RequestPut(put("d", "1", 8)),
    ]);
    store.txn(&both).expect("a transaction");
    let large = "y".repeat(10_300);
    store.put(&put("large", &large, 0)).expect("a put");
    store.lease_revoke(9).expect("a lease");
    assert!(store.raise_alarm(AlarmType::Nospace));
    assert!(store.clear_alarm(AlarmType::Nospace));
    assert!(store.raise_alarm(AlarmType::Nospace));
}

#[test]
fn everything_is_there_again() {
    for fsync in [
        Fsync::Always,
        Fsync::Batch(std::time::Duration::ZERO),
        Fsync::Never,
    ] {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk, fsync);
        write(&store);
        let memory = Store::new(Config::default());
        write(&memory);
        store.close_log();
        let expected = dump(&memory);
        assert!(expected.leases.iter().any(|(_, _, keys)| keys.len() == 3));
        assert_eq!(dump(&store), expected, "{fsync:?}");
        assert_eq!(dump(&open(&disk, fsync)), expected, "{fsync:?}");
    }
}

#[test]
fn a_restart_after_a_compaction_reads_a_snapshot() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, Fsync::Always);
    let memory = Store::new(Config::default());
    for store in [&store, &memory] {
        write(store);
        assert!(store.clear_alarm(AlarmType::Nospace));
    }
    // The log is much longer than the store, and there is only one compaction: another one would
    // hide what the snapshot lacks.
    for store in [&store, &memory] {
        for number in 0..100 {
            let value = format!("{number}").repeat(1000);
            store.put(&put("a", &value, 0)).expect("a put");
        }
    }
    logged(&store, Ok(())).expect("a log");
    let at = store.revision() - 3;
    for store in [&store, &memory] {
        store.compact(at).expect("a revision of the past");
    }
    logged(&store, Ok(())).expect("a log");
    until("there is a snapshot", || {
        !names(&disk, ".snapshot").is_empty()
    });
    for store in [&store, &memory] {
        store.put(&put("e", "behind it", 8)).expect("a put");
    }
    logged(&store, Ok(())).expect("a log");
    store.close_log();
    let expected = dump(&memory);
    assert_eq!(dump(&store), expected);
    let segments = names(&disk, ".log");
    assert!(
        !segments.contains(&format!("{:016}.log", 1)),
        "{segments:?}"
    );
    let again = open(&disk, Fsync::Always);
    assert_eq!(dump(&again), expected);
    again.put(&put("f", "goes on", 0)).expect("a put");
    memory.put(&put("f", "goes on", 0)).expect("a put");
    again.close_log();
    assert_eq!(dump(&open(&disk, Fsync::Always)), dump(&memory));
}

#[test]
fn a_watch_from_an_old_revision_is_told_what_came_before_the_restart() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, Fsync::Always);
    for value in ["1", "2", "3"] {
        store.put(&put("a", value, 0)).expect("a put");
    }
    store.close_log();
    let store = open(&disk, Fsync::Always);
    let stream = store.watch();
    let spec = WatchSpec {
        key: b"a".to_vec(),
        start_revision: 3,
        prev_kv: true,
        ..WatchSpec::default()
    };
    stream.create(spec).expect("a watcher");
    let mut told = Vec::new();
    while told.len() < 2 {
        let notice = block_on(std::future::poll_fn(|context| stream.poll_next(context)));
        if let Notice::Events(delivery) = notice {
            told.extend(delivery.events().map(|(event, prev)| {
                let value = |record: &crate::Record| record.value().to_vec();
                (
                    event.record.mod_revision(),
                    value(&event.record),
                    prev.map(value),
                )
            }));
        }
    }
    let expected = [
        (3, b"2".to_vec(), Some(b"1".to_vec())),
        (4, b"3".to_vec(), Some(b"2".to_vec())),
    ];
    assert_eq!(told, expected);
}

/// A monotonic clock does not survive its server, so a lease restarts with its whole TTL, and no
/// key outlives its lease.
#[test]
fn leases_begin_anew_and_still_expire() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, Fsync::Always);
    let long_ago = Instant::now();
    store.lease_grant(7, 100, long_ago).expect("a lease");
    store.put(&put("a", "x", 7)).expect("a put");
    store.close_log();
    let store = open(&disk, Fsync::Always);
    let now = Instant::now();
    let left = store.lease_time_to_live(7, true, now).expect("a lease");
    assert!(left.remaining_s >= 99, "{left:?}");
    let later = now + std::time::Duration::from_secs(101);
    assert_eq!(store.lease_expire(later), 1);
    logged(&store, Ok(())).expect("a log");
    assert_eq!(store.get_at(b"a", 0).expect("a key").0, None);
    store.close_log();
    let store = open(&disk, Fsync::Always);
    assert_eq!(store.get_at(b"a", 0).expect("a key").0, None);
    assert!(store.leases().is_empty());
}

#[test]
fn a_log_that_skips_a_revision_is_refused() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, Fsync::Always);
    store.put(&put("a", "1", 0)).expect("a put");
    store.close_log();
    let log = Log::open(
        Arc::new(disk.clone()),
        commit_log::Config::default(),
        |_| Ok(()),
    );
    let mut log = log.expect("a log").log;
    let record = crate::Record::tombstone(b"a", 4);
    log.append(&[&[super::entry::WRITE][..], record.wire()[0]].concat())
        .expect("room");
    log.write().expect("room");
    let told = open_with(&disk, options(Fsync::Always))
        .err()
        .expect("a gap");
    let told = told.to_string();
    assert!(
        told.contains("corrupt at offset 64: revision 4 stands where 3 should"),
        "{told}"
    );
}
