//! Fuzz targets for the data on disks: segments of the log, and the records in them.

use std::sync::Arc;

use commit_log::disk::simulated::SimulatedDisk;
use commit_log::{Config, Disk, Log, Replayed};
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest};
use store::{Fsync, LogOptions, Store};

use super::refusal;

/// A configuration with segments so small that a new disk can be created for each input.
const CONFIG: Config = Config {
    segment_bytes: 4096,
    sync: true,
};

/// Returns a simulated disk with a log of these payloads.
fn written(payloads: &[&[u8]]) -> Arc<SimulatedDisk> {
    let disk = Arc::new(SimulatedDisk::new(1));
    let opened = Log::open(disk.clone(), CONFIG, |_| Ok(()));
    let mut log = opened.expect("an empty directory opens").log;
    for payload in payloads {
        log.append(payload)
            .and_then(|()| log.write())
            .expect("a simulated disk works");
    }
    log.sync().expect("a simulated disk works");
    disk
}

/// Checks the bytes of one segment, which are replayed or refused. What was replayed once must be
/// replayed again.
///
/// # Panics
/// If a rule is broken.
pub fn segment(bytes: &[u8]) {
    let disk = written(&[]);
    for name in disk.names().expect("a simulated disk works") {
        disk.alter(&name, |contents| *contents = bytes.to_vec());
    }
    let mut replayed = Vec::new();
    let opened = Log::open(disk.clone(), CONFIG, |part| {
        replayed.push(part);
        Ok(())
    });
    if opened.is_err() {
        return;
    }
    drop(opened);
    let mut again = Vec::new();
    Log::open(disk, CONFIG, |part| {
        again.push(part);
        Ok(())
    })
    .expect("what was opened is opened again");
    assert_eq!(again, replayed);
}

/// Returns a segment with three records.
pub fn segments() -> Vec<Vec<u8>> {
    let disk = written(&[b"a", &[7; 300], b""]);
    let names = disk.names().expect("a simulated disk works");
    names.iter().map(|name| disk.contents(name)).collect()
}

/// Checks a record of a commit: the store replays it, or refuses it with its position.
///
/// # Panics
/// If the store panics.
pub fn records(payload: &[u8]) {
    let disk = written(&[payload]);
    let options = LogOptions {
        segment_bytes: CONFIG.segment_bytes,
        ..LogOptions::new(Fsync::Never)
    };
    refusal(Store::open(store::Config::default(), disk, options));
}

/// Returns the records of a few writes of each kind.
pub fn payloads() -> Vec<Vec<u8>> {
    let disk = Arc::new(SimulatedDisk::new(1));
    let options = LogOptions::new(Fsync::Never);
    let open = || {
        Store::open(store::Config::default(), disk.clone(), options)
            .expect("what was written opens")
    };
    let store = open();
    let put = |key: &str, value: &[u8]| {
        let request = PutRequest {
            key: key.as_bytes().to_vec().into(),
            value: value.to_vec().into(),
            ..PutRequest::default()
        };
        store.put(&request).expect("there is room");
    };
    put("a", b"1");
    put("b", &[7; 100]);
    let deleted = DeleteRangeRequest {
        key: b"a".to_vec().into(),
        ..DeleteRangeRequest::default()
    };
    store.delete_range(&deleted).expect("a key may be deleted");
    store.close_log();
    // After a restart, every write is visible, so that it can be compacted.
    let store = open();
    store
        .compact(store.revision())
        .expect("that revision is there");
    store.close_log();
    let mut payloads = Vec::new();
    let config = Config {
        segment_bytes: options.segment_bytes,
        sync: false,
    };
    Log::open(disk, config, |part| {
        let (Replayed::Snapshot(payload) | Replayed::Record(payload)) = part;
        payloads.push(payload.to_vec());
        Ok(())
    })
    .expect("what was written is replayed");
    payloads
}
