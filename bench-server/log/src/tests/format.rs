//! Pins the bytes on disk, because later versions must read files that this version wrote.

use super::*;
use crate::format::{
    FILE_HEADER_BYTES, FileHeader, Kind, RECORD_HEADER_BYTES, RecordHeader, put_record,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const HEADER: FileHeader = FileHeader {
    kind: Kind::Segment,
    number: 3,
    salt: 0x0123_4567_89ab_cdef,
    previous: 0xdead_beef,
    previous_synced: true,
};

#[test]
fn a_file_header_has_these_bytes() {
    let bytes = HEADER.to_bytes();
    let expected = "\
62656e63686c6731\
0300000000000000\
efcdab8967452301\
efbeadde\
02000000\
00000000000000000000000000000000000000000000000000000000\
e80b36c4";
    assert_eq!(hex(&bytes), expected);
    assert_eq!(FileHeader::parse(&bytes), Ok(HEADER));
    for bit in 0..FILE_HEADER_BYTES * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(
            FileHeader::parse(&flipped).is_err(),
            "bit {bit} does not matter"
        );
    }
}

#[test]
fn records_have_these_bytes() {
    let mut bytes = Vec::new();
    let chain = put_record(&mut bytes, HEADER.salted(), HEADER.chain(), 64, b"first");
    put_record(&mut bytes, HEADER.salted(), chain, 96, b"the second");
    let expected = "\
05000000e80b36c44000000080cdf6f89a1edfef\
6669727374\
00000000000000\
0a0000009a1edfef600000009f00bd497ac4e0cf\
746865207365636f6e64\
0000";
    assert_eq!(hex(&bytes), expected);
    assert_eq!(bytes.len() % 8, 0);
}

#[test]
fn a_record_is_its_own_files_and_no_others() {
    let mut bytes = Vec::new();
    put_record(&mut bytes, HEADER.salted(), HEADER.chain(), 64, b"first");
    let header = RecordHeader::parse(&bytes, HEADER.salted()).expect("its salt");
    let payload = &bytes[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + 5];
    assert!(header.verifies(payload, HEADER.salted()));
    let other = FileHeader {
        salt: HEADER.salt + 1,
        ..HEADER
    };
    assert_eq!(RecordHeader::parse(&bytes, other.salted()), None);
    assert!(!header.verifies(payload, other.salted()));
}

#[test]
fn a_payload_beyond_the_limit_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut found = open(&disk, SMALL).expect("a new log");
    let refused = found.log.append(&vec![0; MAX_PAYLOAD_BYTES + 1]);
    assert!(matches!(refused, Err(LogError::TooLarge { .. })));
    assert!(matches!(found.log.write(), Err(LogError::Failed)));
}
