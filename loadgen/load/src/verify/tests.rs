//! Checks of lists of three objects.

use super::*;

const OBJECTS: [(&[u8], &[u8]); 3] = [(b"/r/a", b"1"), (b"/r/b", b"22"), (b"/r/c", b"333")];
const LISTED: Listed = Listed {
    revision: 9,
    chunks: 1,
    wire_bytes: 0,
};

fn check(
    objects: &[(&[u8], &[u8])],
    expected: Option<&Expected>,
) -> Result<Contents, InvalidResponse> {
    let mut check = Check::new("/r/");
    for (key, value) in objects {
        check.visit(key, value, 9);
    }
    check.finish(&LISTED, expected)
}

fn expected() -> Expected {
    let found = check(&OBJECTS, None).expect("nothing is expected");
    Expected {
        fingerprint: found.fingerprint,
        revisions: Some(found.revisions),
        revision: 9,
    }
}

#[test]
fn what_was_written_passes() {
    let found = check(&OBJECTS, Some(&expected())).expect("the same objects");
    let found = &found.fingerprint;
    assert_eq!((found.objects, found.bytes), (3, 9));
}

#[test]
fn every_fault_has_its_name() {
    let expected = expected();
    let short = check(&OBJECTS[..2], Some(&expected));
    assert!(matches!(
        short,
        Err(InvalidResponse::Objects {
            expected: 3,
            found: 2
        })
    ));
    let flipped = [OBJECTS[0], OBJECTS[1], (b"/r/c", b"334")];
    assert!(matches!(
        check(&flipped, Some(&expected)),
        Err(InvalidResponse::Altered { .. })
    ));
    let longer = [OBJECTS[0], OBJECTS[1], (b"/r/c", b"3333")];
    assert!(matches!(
        check(&longer, Some(&expected)),
        Err(InvalidResponse::Bytes { .. })
    ));
    // The same bytes, with the boundary between key and value moved.
    let moved = [OBJECTS[0], OBJECTS[1], (&b"/r/c3"[..], &b"33"[..])];
    assert!(matches!(
        check(&moved, Some(&expected)),
        Err(InvalidResponse::Altered { .. })
    ));
    let foreign = [OBJECTS[0], (&b"/other"[..], &b""[..])];
    assert!(matches!(
        check(&foreign, Some(&expected)),
        Err(InvalidResponse::ForeignKey(_))
    ));
    let mut rewritten = Check::new("/r/");
    for ((key, value), revision) in OBJECTS.iter().zip([9, 8, 9]) {
        rewritten.visit(key, value, revision);
    }
    let rewritten = rewritten.finish(&LISTED, Some(&expected));
    let wrong = rewritten.expect_err("an object of another revision");
    let sum = expected.revisions.expect("it is known");
    assert!(
        matches!(wrong, InvalidResponse::ObjectRevision { expected, found } if expected == sum && found != sum)
    );
    assert!(
        wrong.to_string().contains(&format!("{sum:016x}")),
        "{wrong}"
    );
    let newer = Expected {
        revision: 10,
        ..expected
    };
    assert!(matches!(
        check(&OBJECTS, Some(&newer)),
        Err(InvalidResponse::Stale { .. })
    ));
}

#[test]
fn what_is_said_of_an_object_s_writes_must_be_possible() {
    let history = |created, modified, version, lease| History {
        created,
        modified,
        version,
        lease,
    };
    let finished = |noted, expected: Option<&Expected>| {
        let mut check = Check::new("/r/");
        for (key, value) in &OBJECTS {
            check.visit(key, value, 9);
            check.note_history(key, noted);
        }
        check.finish(&LISTED, expected).map(drop)
    };
    let expected = expected();
    for good in [history(9, 9, 1, 0), history(2, 9, 8, 0)] {
        assert_eq!(finished(good, Some(&expected)), Ok(()), "{good:?}");
    }
    for bad in [
        history(9, 9, 2, 0),
        history(8, 9, 1, 0),
        history(0, 9, 2, 0),
        history(9, 9, 0, 0),
        history(10, 9, 2, 0),
    ] {
        let (key, said) = ("/r/a".to_owned(), bad);
        let wrong = InvalidResponse::History { key, said };
        assert_eq!(finished(bad, None), Err(wrong), "the first of three");
    }
    let leased = history(9, 9, 1, 7);
    assert_eq!(finished(leased, None), Ok(()), "somebody else's may have");
    let written = finished(leased, Some(&expected));
    let wrong = written.expect_err("nothing was written with a lease");
    assert_eq!(
        wrong.to_string(),
        "3 objects have a lease, and were written without (the first is `/r/a`)"
    );
}

#[test]
fn an_object_newer_than_its_list_is_wrong() {
    let mut check = Check::new("/r/");
    check.visit(b"/r/a", b"1", 10);
    assert!(matches!(
        check.finish(&LISTED, None),
        Err(InvalidResponse::Revision { .. })
    ));
}
