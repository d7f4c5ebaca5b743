//! A snapshot either replaces what came before it, or does not exist.

use super::*;

#[test]
fn a_snapshot_replaces_the_segments_before_it() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    fill(&mut found.log, 0..40, 100);
    let number = found.log.rotate().expect("room");
    let after = fill(&mut found.log, 40..60, 100);
    write(&disk, number).expect("room");
    let names = disk.names().expect("a directory");
    assert!(names.contains(&snapshot(number)));
    let older = names
        .iter()
        .filter(|name| name.as_str() < &snapshot(number)[..16]);
    assert_eq!(older.count(), 0, "{names:?}");
    let found = open(&disk, SMALL).expect("a log");
    assert_eq!(found.snapshot, [b"one".to_vec(), b"two".to_vec()]);
    assert_eq!(found.records, after);
}

fn snapshot(number: u64) -> String {
    format!("{number:016}.snapshot")
}

fn write(disk: &SimulatedDisk, number: u64) -> Result<u64, LogError> {
    let mut writer = SnapshotWriter::create(Arc::new(disk.clone()), number)?;
    writer.push(b"one")?;
    writer.push(b"two")?;
    writer.finish()
}

#[test]
fn power_may_be_cut_at_any_call_of_a_snapshot() {
    for seed in 0..40 {
        let mut calls = 0;
        loop {
            let disk = SimulatedDisk::new(seed);
            let mut found = open(&disk, SMALL).expect("a new log");
            let before = fill(&mut found.log, 0..40, 100);
            let number = found.log.rotate().expect("room");
            let after = fill(&mut found.log, 40..45, 100);
            disk.fail_after(calls);
            let whole = write(&disk, number).is_ok();
            disk.cut_power();
            let found = open(&disk, SMALL).expect("a log");
            match found.snapshot.len() {
                0 => assert_eq!(found.records, [&before[..], &after].concat()),
                _ => assert_eq!(found.records, after),
            }
            if whole {
                assert_eq!(found.snapshot.len(), 2);
                break;
            }
            calls += 1;
        }
        assert!(calls > 4, "a snapshot takes several calls");
    }
}

#[test]
fn a_snapshot_that_is_given_up_leaves_nothing() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    fill(&mut found.log, 0..5, 100);
    let number = found.log.rotate().expect("room");
    let before = disk.names().expect("a directory");
    let mut writer = SnapshotWriter::create(Arc::new(disk.clone()), number).expect("room");
    writer.push(b"one").expect("room");
    drop(writer);
    assert_eq!(disk.names().expect("a directory"), before);
}

#[test]
fn a_snapshot_that_rots_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    fill(&mut found.log, 0..5, 100);
    let number = found.log.rotate().expect("room");
    write(&disk, number).expect("room");
    let name = snapshot(number);
    for byte in 0..disk.contents(&name).len() {
        disk.alter(&name, |bytes| bytes[byte] ^= 4);
        match open(&disk, SMALL).err() {
            Some(error) => assert!(error.to_string().contains(&name), "{error}"),
            // The zeros after a payload are not verified.
            None => assert!(disk.contents(&name)[byte] == 4, "byte {byte}"),
        }
        disk.alter(&name, |bytes| bytes[byte] ^= 4);
    }
}
