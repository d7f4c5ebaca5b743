//! Bytes that change behind a sync are refused; an end that no sync has covered is cut.

use super::*;

/// Returns a log of two segments and an end that was written and not synced, and all its records.
fn written(disk: &SimulatedDisk) -> Vec<Vec<u8>> {
    let mut found = open(disk, SMALL).expect("a new log");
    let mut expected = fill(&mut found.log, 0..20, 100);
    for number in 20..23 {
        expected.push(payload(number, 120));
        found.log.append(&expected[number]).expect("room");
    }
    found.log.write().expect("room");
    expected
}

#[test]
fn a_torn_end_is_copied_aside_cut_and_told() {
    let disk = SimulatedDisk::new(1);
    let expected = written(&disk);
    // The first of three that were never synced: those behind it are whole, and were not
    // acknowledged either.
    let torn = position(&disk.contents("0000000000000002.log"), "record 00000020");
    let before = disk.contents("0000000000000002.log");
    disk.alter("0000000000000002.log", |bytes| bytes[torn + 3] ^= 0x10);
    let altered = disk.contents("0000000000000002.log");
    let found = open(&disk, SMALL).expect("a torn end");
    assert_eq!(found.records, expected[..20]);
    let cut = found.recovery.cut.expect("an end was cut");
    let at = torn as u64 - 20;
    assert_eq!(
        (cut.file.as_str(), cut.offset),
        ("0000000000000002.log", at)
    );
    assert_eq!(cut.kept_as, format!("0000000000000002.log.torn-{at}"));
    let kept = disk.contents(&cut.kept_as);
    assert_eq!(kept.len() as u64, cut.bytes);
    assert_eq!(kept, altered[at as usize..][..kept.len()]);
    assert!(
        altered[at as usize + kept.len()..]
            .iter()
            .all(|byte| *byte == 0)
    );
    assert_eq!(disk.contents("0000000000000002.log"), before[..at as usize]);
    assert_eq!(open(&disk, SMALL).expect("a whole log").recovery.cut, None);
}

/// Every bit of everything that was synced and written behind.
#[test]
fn a_bit_that_flips_behind_a_sync_is_never_taken_for_a_torn_end() {
    let disk = SimulatedDisk::new(1);
    let expected = written(&disk);
    for name in ["0000000000000001.log", "0000000000000002.log"] {
        let bytes = disk.contents(name).len();
        for bit in (0..bytes * 8).step_by(13) {
            let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
            // A start changes files, and this disk is for the next bit, too.
            let copy = copy_of(&disk);
            copy.alter(name, flip);
            let outcome = open(&copy, SMALL);
            match outcome {
                Ok(found) => {
                    // The bit belongs to the unsynced end, or to zeros behind a payload.
                    assert!(found.records.len() >= 20, "bit {bit} of {name}");
                    assert!(expected.starts_with(&found.records));
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(matches!(error, LogError::Corrupt { .. }), "{told}");
                    assert!(
                        told.contains(&format!("{name} is corrupt at offset ")),
                        "{told}"
                    );
                }
            }
        }
    }
}

/// Returns where the first of these words stands.
fn position(bytes: &[u8], word: &str) -> usize {
    let mut windows = bytes.windows(word.len());
    windows
        .position(|found| found == word.as_bytes())
        .expect("it was written")
}

/// Returns where the last of these words stands.
fn last_position(bytes: &[u8], word: &str) -> usize {
    let mut windows = bytes.windows(word.len());
    windows
        .rposition(|found| found == word.as_bytes())
        .expect("it was written")
}

/// The same files on another disk.
fn copy_of(disk: &SimulatedDisk) -> SimulatedDisk {
    let copy = SimulatedDisk::new(1);
    for name in disk.names().expect("a directory") {
        copy.create(&name, 0).expect("no limit");
        let contents = disk.contents(&name);
        copy.alter(&name, |bytes| bytes.clone_from(&contents));
    }
    copy
}

#[test]
fn a_segment_that_is_missing_is_named() {
    for missing in ["0000000000000001.log", "0000000000000002.log"] {
        let disk = SimulatedDisk::new(1);
        let mut found = open(&disk, SMALL).expect("a new log");
        fill(&mut found.log, 0..50, 100);
        disk.remove(missing).expect("a segment");
        let told = open(&disk, SMALL).err().expect("a gap").to_string();
        assert!(
            told.starts_with(&format!(
                "{missing} is corrupt at offset 0: the file is missing"
            )),
            "{told}"
        );
    }
}

/// The end of a segment that is not the last: no later record of the segment tells, but the next
/// segment does.
#[test]
fn records_lost_between_two_segments_are_missed() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    fill(&mut found.log, 0..50, 100);
    disk.alter("0000000000000001.log", |bytes| {
        let last = last_position(bytes, "record");
        bytes[last - 20..].fill(0);
    });
    let told = open(&disk, SMALL).err().expect("a lost record").to_string();
    assert!(
        told.starts_with("0000000000000001.log is corrupt"),
        "{told}"
    );
    assert!(
        told.contains("segment 2 was begun after it was durable"),
        "{told}"
    );
}

/// A block that a disk wrote to the wrong place: the record in it verifies, and is not the one that
/// was here.
#[test]
fn a_record_in_the_place_of_another_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    fill(&mut found.log, 0..10, 100);
    let place = |bytes: &[u8], number| position(bytes, &format!("record {number:08}")) - 20;
    disk.alter("0000000000000001.log", |bytes| {
        let (from, to, next) = (place(bytes, 3), place(bytes, 5), place(bytes, 4));
        bytes.copy_within(from..next, to);
    });
    let told = open(&disk, SMALL)
        .err()
        .expect("another record")
        .to_string();
    assert!(
        told.starts_with("0000000000000001.log is corrupt at offset "),
        "{told}"
    );
}

/// A length of garbage must not ask for its bytes.
#[test]
fn a_length_that_cannot_be_is_not_believed() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    let expected = fill(&mut found.log, 0..3, 100);
    found.log.append(&payload(3, 100)).expect("room");
    found.log.write().expect("room");
    disk.alter("0000000000000001.log", |bytes| {
        let last = last_position(bytes, "record");
        bytes[last - 20..last - 16].copy_from_slice(&u32::MAX.to_le_bytes());
    });
    let found = open(&disk, SMALL).expect("a torn end");
    assert_eq!(found.records, expected);
}
