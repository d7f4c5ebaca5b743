//! Selectors that an apiserver accepts, and published hashes and shards.
//!
//! - [`rejections`]: texts that an apiserver rejects, with its errors
//! - [`properties`]: properties of all texts, selectors and hashes

mod properties;
mod rejections;

use super::*;

const HALF: &str = "0x8000000000000000";
const WHOLE: &str = "0x10000000000000000";
const ZERO: &str = "0x0000000000000000";

fn of(field: &str, start: &str, end: &str) -> String {
    format!("shardRange({field}, '{start}', '{end}')")
}

fn uid(start: &str, end: &str) -> String {
    of("object.metadata.uid", start, end)
}

fn error_of(text: &str) -> String {
    let refused = ShardSelector::parse(text);
    refused.expect_err(text).to_string()
}

#[test]
fn fields_hash_as_published() {
    let uids = [
        ("", 0xcbf2_9ce4_8422_2325),
        ("a", 0xaf63_dc4c_8601_ec8c),
        ("abc", 0xe71f_a219_0541_574b),
        ("test-uid-12345", 0xd4c5_3b72_f928_7c28),
        (
            "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
            0x9375_4b72_48a0_0eb9,
        ),
        (
            "eb30a43a-54b2-441a-8c42-3b7dec491d44",
            0x9e05_6817_9e1a_d354,
        ),
        (
            "00000000-0000-0000-0000-000000000000",
            0x7c38_4c62_18f2_99f1,
        ),
    ];
    for (uid, hash) in uids {
        assert_eq!(
            ShardKey::Uid.hash(uid.as_bytes(), b"default"),
            hash,
            "{uid:?}"
        );
    }
    let namespaces = [
        ("default", 0xebad_a516_8620_c5fe),
        ("kube-system", 0xdf65_c7bc_1d82_b35e),
        ("", 0xcbf2_9ce4_8422_2325),
    ];
    for (namespace, hash) in namespaces {
        let hashed = ShardKey::Namespace.hash(b"abc", namespace.as_bytes());
        assert_eq!(hashed, hash, "{namespace:?}");
    }
}

#[test]
fn the_documented_split_in_two_is_read_and_written() {
    let halves = ShardSelector::equal_shards(ShardKey::Uid, NonZeroU32::MIN.saturating_add(1));
    assert_eq!(
        halves.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [uid(ZERO, HALF), uid(HALF, WHOLE)]
    );
    for half in &halves {
        assert_eq!(ShardSelector::parse(&half.to_string()).as_ref(), Ok(half));
    }
    let [low, high] = &halves[..] else {
        panic!("two halves");
    };
    let middle = 1 << 63;
    assert!(low.selects(0) && low.selects(middle - 1) && !low.selects(middle));
    assert!(high.selects(middle) && high.selects(u64::MAX) && !high.selects(middle - 1));
}

/// Equal ranges of namespace hashes are not equal shards. Checks the published shard sizes.
#[test]
fn equal_ranges_of_numbered_namespaces_are_unequal_shards() {
    let sizes = |names: &[String], shards| {
        let shards = NonZeroU32::new(shards).expect("some");
        let shards = ShardSelector::equal_shards(ShardKey::Namespace, shards);
        let size = |shard: &ShardSelector| {
            let hash = |name: &&String| ShardKey::Namespace.hash(b"", name.as_bytes());
            names
                .iter()
                .filter(|name| shard.selects(hash(name)))
                .count()
        };
        shards.iter().map(size).collect::<Vec<_>>()
    };
    let names = (1..=80).map(|i| format!("test-ns-{i}")).collect::<Vec<_>>();
    assert_eq!(sizes(&names, 2), [71, 9]);
    assert_eq!(sizes(&names, 4), [71, 0, 9, 0]);
    let names = (0..100).map(|i| format!("ns-{i}")).collect::<Vec<_>>();
    assert_eq!(sizes(&names, 2), [100, 0]);
    assert_eq!(sizes(&names, 4), [0, 100, 0, 0]);
    let names = (0..1_000).map(|i| format!("ns-{i:04}")).collect::<Vec<_>>();
    assert_eq!(sizes(&names, 2), [1_000, 0]);
    assert_eq!(sizes(&names, 4), [600, 400, 0, 0]);
    assert_eq!(sizes(&names, 8), [300, 300, 200, 200, 0, 0, 0, 0]);
}

#[test]
fn whatever_cel_allows_reads_the_same() {
    let one = uid(ZERO, HALF);
    let canonical = format!("{one} || {}", uid(HALF, WHOLE));
    let two = canonical.replace(" || ", "||");
    for text in [
        format!("  \t\n{canonical}\u{c}\r\n"),
        two.replace(", ", ","),
        two.replace('.', " . ").replace('(', " ( \n"),
        format!("({canonical})"),
        format!("(({one})) || (((({}))))", uid(HALF, WHOLE)),
        canonical.replace('\'', "\""),
        canonical.replace('\'', "'''"),
        canonical.replace('\'', "\"\"\""),
        canonical.replace("'0x", "r'0x"),
        canonical.replace("'0x", "R'0x"),
        canonical.replace("'0x8", "'\\x30\\u0078\\U00000038"),
        canonical.replace("'0x8", "'\\060x8"),
        format!("// halves\n{canonical} // both"),
        canonical.replace("shardRange", "object.shardRange"),
        format!("!!{}", canonical.replace("|| ", "||----")),
    ] {
        let selector = ShardSelector::parse(&text);
        let written = selector.map(|selector| selector.to_string());
        assert_eq!(written.as_deref(), Ok(&*canonical), "{text}");
    }
}

#[test]
fn ranges_may_overlap_touch_and_leave_gaps() {
    let bound = |digit: char| format!("0x{digit}000000000000000");
    let range = |start, end| uid(&bound(start), &bound(end));
    let text = [
        range('8', 'a'),
        range('1', '3'),
        range('2', '4'),
        range('4', '5'),
    ]
    .join(" || ");
    let selector = ShardSelector::parse(&text).expect("ranges");
    assert_eq!(selector.to_string(), text, "in the order given");
    let spans: Vec<_> = selector
        .spans()
        .iter()
        .map(|span| (span.first() >> 60, span.end() >> 60))
        .collect();
    assert_eq!(spans, [(1, 5), (8, 10)]);
    for (digit, selected) in [
        (0, false),
        (1, true),
        (4, true),
        (5, false),
        (8, true),
        (9, true),
        (10, false),
    ] {
        assert_eq!(selector.selects(digit << 60), selected, "{digit}");
    }
}
