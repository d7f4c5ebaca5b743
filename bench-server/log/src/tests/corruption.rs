//! Changed bytes that a sync had covered are an error; an end that no sync has covered is cut.

use super::*;

/// Writes a log of two segments with an end that is written but not synced; returns all of its
/// records.
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
    // The first of three records that were never synced: the two after it are intact, but were not
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

/// The last record is the proof that the one before it was durable, and its payload looks like the
/// zeros that are reserved behind it. A Pod in protobuf ends in one.
#[test]
fn a_synced_record_before_one_that_ends_in_zeros_is_never_taken_for_a_torn_end() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    for payload in [&b"first"[..], b"second", b"third\0\0\0\0"] {
        found.log.append(payload).expect("room");
        found.log.write().expect("room");
        found.log.sync().expect("room");
    }
    drop(found);
    let second = position(&disk.contents("0000000000000001.log"), "second");
    disk.alter("0000000000000001.log", |bytes| bytes[second] ^= 1);
    let error = open(&disk, SMALL).err().expect("a synced record is lost");
    assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
}

/// Flips every bit of everything that was synced and has a later record.
#[test]
fn a_bit_that_flips_behind_a_sync_is_never_taken_for_a_torn_end() {
    let disk = SimulatedDisk::new(1);
    let expected = written(&disk);
    for name in ["0000000000000001.log", "0000000000000002.log"] {
        let bytes = disk.contents(name).len();
        for bit in (0..bytes * 8).step_by(13) {
            let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
            // Opening changes files, and this disk is needed for the next bit, too.
            let copy = copy_of(&disk);
            copy.alter(name, flip);
            let outcome = open(&copy, SMALL);
            match outcome {
                Ok(found) => {
                    // The bit belongs to the unsynced end, or to the zeros after a payload.
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

/// Returns the first position of `word`.
fn position(bytes: &[u8], word: &str) -> usize {
    let mut windows = bytes.windows(word.len());
    windows
        .position(|found| found == word.as_bytes())
        .expect("it was written")
}

/// Returns the last position of `word`.
fn last_position(bytes: &[u8], word: &str) -> usize {
    let mut windows = bytes.windows(word.len());
    windows
        .rposition(|found| found == word.as_bytes())
        .expect("it was written")
}

/// Returns a disk with the same files.
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

/// Cuts the end of a segment that is not the last. No later record of that segment reveals it, but
/// the next segment does.
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

/// A disk wrote a block to the wrong place: its record verifies, but it is not the one that was
/// there.
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

/// An invalid length must not lead to an allocation of its size.
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
