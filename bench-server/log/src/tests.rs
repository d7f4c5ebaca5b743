//! Tests of the log on a simulated disk that loses power, fills up, fails and corrupts bytes.

mod corruption;
mod faults;
mod format;
mod power_cut;
mod snapshots;

use std::sync::Arc;

use super::disk::simulated::SimulatedDisk;
use super::*;

/// Segments so small that a handful of records fills one.
const SMALL: Config = Config {
    segment_bytes: 2048,
    sync: true,
};

/// Returns a payload that no other record has.
fn payload(number: usize, bytes: usize) -> Vec<u8> {
    let mut payload = format!("record {number:08} ").into_bytes();
    payload.resize(payload.len().max(bytes), b'x');
    payload
}

/// The result of opening a log.
struct Found {
    log: Log,
    records: Vec<Vec<u8>>,
    snapshot: Vec<Vec<u8>>,
    recovery: Recovery,
}

fn open(disk: &SimulatedDisk, config: Config) -> Result<Found, LogError> {
    let (mut records, mut snapshot) = (Vec::new(), Vec::new());
    let opened = Log::open(Arc::new(disk.clone()), config, |part| {
        match part {
            Replayed::Snapshot(payload) => snapshot.push(payload.to_vec()),
            Replayed::Record(payload) => records.push(payload.to_vec()),
        }
        Ok(())
    })?;
    Ok(Found {
        log: opened.log,
        records,
        snapshot,
        recovery: opened.recovery,
    })
}

/// Appends records of this size, each written and synced. Returns their payloads.
fn fill(log: &mut Log, numbers: std::ops::Range<usize>, bytes: usize) -> Vec<Vec<u8>> {
    let payloads = numbers.map(|number| payload(number, bytes));
    let payloads: Vec<_> = payloads.collect();
    for payload in &payloads {
        log.append(payload).expect("room");
        log.write().expect("room");
        log.sync().expect("a disk");
    }
    payloads
}

#[test]
fn records_come_back_in_order_over_segments_and_starts() {
    let disk = SimulatedDisk::new(1);
    let mut expected = Vec::new();
    for start in 0..4 {
        let mut found = open(&disk, SMALL).expect("a whole log");
        assert_eq!(found.records, expected, "at start {start}");
        assert_eq!(found.recovery.cut, None);
        assert_eq!(found.recovery.records, expected.len() as u64);
        let first = expected.len();
        expected.extend(fill(&mut found.log, first..first + 30, 100 + start));
        // Larger than a segment.
        expected.extend(fill(&mut found.log, first + 30..first + 31, 10_000));
    }
    assert!(
        disk.names().expect("a directory").len() > 10,
        "several segments"
    );
}

#[test]
fn a_record_larger_than_a_block_is_read_back() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    let mut expected = fill(&mut found.log, 0..3, 9 * 1024 * 1024);
    expected.extend(fill(&mut found.log, 3..9, 100));
    let found = open(&disk, SMALL).expect("a whole log");
    assert!(found.records == expected, "other records than were written");
}

#[test]
fn a_record_that_the_replay_refuses_is_named() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    fill(&mut found.log, 0..30, 100);
    let mut left = 20;
    let refused = Log::open(Arc::new(disk), SMALL, |_| {
        left -= 1;
        match left {
            0 => Err("revision 7 follows 9".to_owned()),
            _ => Ok(()),
        }
    });
    let told = refused.err().expect("it was refused").to_string();
    assert!(told.contains(".log is corrupt at offset"), "{told}");
    assert!(told.contains("revision 7 follows 9"), "{told}");
}
