//! Pins the bytes of the log's records, because later versions must read what this version wrote.

use super::*;
use crate::history::{Commit, Event};
use crate::wal::entry::{Change, Entry};
use crate::{Fields, Record};

fn hex(entry: &Entry) -> String {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_write_has_these_bytes() {
    let record = Record::new(Fields {
        key: b"key",
        create_revision: 2,
        mod_revision: 3,
        version: 2,
        value: b"value"[..].into(),
        lease: 7,
    });
    let event = |record| Event { record, prev: None };
    let commit: Commit = [event(record), event(Record::tombstone(b"gone", 3))].into();
    let entry = Entry {
        commit: Some(commit),
        change: Some(Change::LeaseRevoked(7)),
    };
    let expected = "01\
1214\
0a036b6579\
10021803\
2002\
2a0576616c7565\
3007\
1208\
0a04676f6e65\
1803\
2007";
    assert_eq!(hex(&entry), expected);
}

#[test]
fn changes_have_these_bytes() {
    for (change, expected) in [
        (Change::LeaseGranted { id: 7, ttl_s: 60 }, "011a040807103c"),
        (Change::LeaseRevoked(7), "012007"),
        (Change::Compacted(300), "0128ac02"),
        (Change::AlarmRaised(AlarmType::Nospace), "013001"),
        (Change::AlarmCleared(AlarmType::Corrupt), "013802"),
    ] {
        let entry = Entry {
            commit: None,
            change: Some(change),
        };
        assert_eq!(hex(&entry), expected, "{change:?}");
    }
}
