//! Selectors as an apiserver reads them: what passes, what does not and why, and shards that add up.

use proptest::collection::vec;
use proptest::prelude::*;

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

fn refusal(text: &str) -> String {
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

/// Equal ranges of namespaces are not equal shards, by the numbers that are published for them.
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

#[test]
fn every_refusal_has_its_text() {
    let good = uid(ZERO, HALF);
    let namespace = of("object.metadata.namespace", ZERO, HALF);
    for blank in ["", " ", "\t\r\n"] {
        assert_eq!(
            refusal(blank),
            "empty shard selector is not allowed; omit the parameter for unfiltered lists"
        );
    }
    let functions = [
        (format!("{good} && {good}"), "_&&_"),
        (format!("{good} || {good} && {good}"), "_&&_"),
        (format!("!{good}"), "!_"),
        (format!("-{good}"), "-_"),
        (format!("{good} == true"), "_==_"),
        (format!("{good} + 1 * 2 - 3"), "_-_"),
        (format!("1 + {good} * 2"), "_+_"),
        (format!("{good} ? {good} : {good}"), "_?_:_"),
        ("object in [1, 2]".to_owned(), "@in"),
        ("object[0]".to_owned(), "_[_]"),
        (good.replace("shardRange", "shardrange"), "shardrange"),
        (good.replace("shardRange", ".shardRange"), ".shardRange"),
        (
            "object.metadata.uid.startsWith('0')".to_owned(),
            "startsWith",
        ),
        ("f()".to_owned(), "f"),
    ];
    for (text, function) in functions {
        let expected =
            format!("unsupported function \"{function}\"; only shardRange() and || are allowed");
        assert_eq!(refusal(&text), expected, "{text}");
    }
    for (text, kind) in [
        ("object", 3),
        (".object", 3),
        ("[1, 2,]", 4),
        ("true", 5),
        ("null", 5),
        ("'text'", 5),
        ("b'bytes'", 5),
        ("-1.5e-3", 5),
        ("!!0xffu", 5),
        ("{'a': 1,}", 6),
        ("object.metadata.uid", 7),
        ("some.Message{field: 1}", 8),
    ] {
        let expected =
            format!("unexpected expression kind {kind}; expected shardRange() call or || operator");
        assert_eq!(refusal(text), expected, "{text}");
    }
    for (arguments, count) in [("", 0), ("object.metadata.uid", 1), ("1, 2, 3, 4", 4)] {
        assert_eq!(
            refusal(&format!("shardRange({arguments})")),
            format!("shardRange() requires exactly 3 arguments, got {count}")
        );
    }
    for (field, kind) in [
        ("'object.metadata.uid'", 5),
        ("f().metadata.uid", 1),
        ("[object]", 4),
    ] {
        assert_eq!(
            refusal(&of(field, ZERO, HALF)),
            format!(
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {kind}"
            )
        );
    }
    for path in [
        "metadata.uid",
        "object.metadata.name",
        "object",
        ".object.metadata.uid",
    ] {
        assert_eq!(
            refusal(&of(path, ZERO, HALF)),
            format!(
                "unsupported field path \"{path}\"; supported: object.metadata.uid, object.metadata.namespace"
            )
        );
    }
    assert_eq!(
        refusal(&format!("{good} || {good} || {namespace}")),
        "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\""
    );
    for (start, end) in [(HALF, HALF), (HALF, ZERO), (WHOLE, WHOLE), (WHOLE, HALF)] {
        assert_eq!(
            refusal(&uid(start, end)),
            format!("shard range start {start} must be less than end {end}")
        );
    }
}

#[test]
fn every_bad_bound_has_its_text() {
    let literal = |written: &str| format!("shardRange(object.metadata.uid, {written}, '{WHOLE}')");
    for (written, why) in [
        (
            "object",
            " must be a string literal (e.g. '0xff'), got expression kind 3",
        ),
        (
            "f('0x0')",
            " must be a string literal (e.g. '0xff'), got expression kind 1",
        ),
        (
            "['0x0']",
            " must be a string literal (e.g. '0xff'), got expression kind 4",
        ),
        ("0x0", " must be a string literal, got int64"),
        ("0u", " must be a string literal, got uint64"),
        ("0.0", " must be a string literal, got float64"),
        (
            "b'0x0000000000000000'",
            " must be a string literal, got []uint8",
        ),
        ("false", " must be a string literal, got bool"),
        (
            "'0000000000000000'",
            " must have '0x' prefix, got \"0000000000000000\"",
        ),
        (
            "'0X0000000000000000'",
            " must have '0x' prefix, got \"0X0000000000000000\"",
        ),
        ("''", " must have '0x' prefix, got \"\""),
        ("'0x'", ": hex value is required after '0x'"),
        (
            "'0x100000000000000000'",
            ": hex value too long (18 chars, max 17): \"100000000000000000\"",
        ),
        ("'0xG'", ": invalid hex character \"G\" in \"0xG\""),
        (
            "'0x00000000000000AB'",
            ": invalid hex character \"A\" in \"0x00000000000000AB\"",
        ),
        ("'0xé'", ": invalid hex character \"é\" in \"0xé\""),
        ("'0x 0'", ": invalid hex character \" \" in \"0x 0\""),
        (
            "'0x10000000000000001'",
            ": 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\"",
        ),
        (
            "'0x00000000000000000'",
            ": 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x00000000000000000\"",
        ),
        (
            "'0x0'",
            " must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
        ),
        (
            "'0xff'",
            " must be a 0x-prefixed 16-digit hex value, got \"0xff\" (did you mean \"0x00000000000000ff\"?)",
        ),
    ] {
        assert_eq!(
            refusal(&literal(written)),
            format!("hexStart{why}"),
            "{written}"
        );
        let as_end = literal(&format!("'{ZERO}', {written}")).replace(&format!(", '{WHOLE}'"), "");
        assert_eq!(refusal(&as_end), format!("hexEnd{why}"), "{written}");
    }
}

#[test]
fn what_is_no_expression_is_a_syntax_error() {
    let good = uid(ZERO, HALF);
    for (text, word) in [
        (format!("{good} ||"), "<EOF>"),
        (format!("{good} | {good}"), "|"),
        (format!("{good} {good}"), "shardRange"),
        (format!("({good}"), "<EOF>"),
        (format!("{good})"), ")"),
        (good.replace(')', ",)"), ")"),
        (format!("shardSelector={good}"), "="),
        ("#".to_owned(), "#"),
        ("'open".to_owned(), "'open"),
        ("'two\nlines'".to_owned(), "'two\nlines'"),
        ("'\\q'".to_owned(), "'\\q'"),
        ("a b".to_owned(), "b"),
        (format!("!-{good}"), "-"),
        ("[,]".to_owned(), ","),
        ("{1}".to_owned(), "}"),
        ("a.".to_owned(), "<EOF>"),
        ("a ? b".to_owned(), "<EOF>"),
    ] {
        let said = refusal(&text);
        assert!(
            said.starts_with("CEL parse error: Syntax error: "),
            "{said}"
        );
        assert!(said.ends_with(&format!("'{word}'")), "{said}");
    }
    for (text, said) in [
        ("namespace", "reserved identifier: namespace"),
        ("9223372036854775808", "invalid int literal"),
        ("18446744073709551616u", "invalid uint literal"),
    ] {
        assert_eq!(refusal(text), format!("CEL parse error: {said}"));
    }
    let nested = |depth| format!("{}{good}{}", "(".repeat(depth), ")".repeat(depth));
    assert!(ShardSelector::parse(&nested(200)).is_ok());
    assert_eq!(
        refusal(&"é".repeat(100_001)),
        "CEL parse error: expression code point size exceeds limit: size: 100001, limit 100000"
    );
    for deep in ["(", "[", "{", "!(", "f(", "a[", "1+2*(", "a?b:("] {
        let said = refusal(&deep.repeat(10_000));
        let limit = "CEL parse error: expression recursion limit exceeded: 250";
        let ended = "CEL parse error: Syntax error: mismatched input";
        assert!(said == limit || said.starts_with(ended), "{deep}: {said}");
    }
    let long = [&*good; 1_200].join("||");
    let selector = ShardSelector::parse(&long).expect("long, not deep");
    assert_eq!(
        (selector.ranges().len(), selector.spans().len()),
        (1_200, 1)
    );
}

fn key() -> impl Strategy<Value = ShardKey> {
    prop_oneof![Just(ShardKey::Uid), Just(ShardKey::Namespace)]
}

fn range() -> impl Strategy<Value = ShardRange> {
    // Bounds that are close, far, aligned and extreme.
    let bound = prop_oneof![
        any::<u64>().prop_map(u128::from),
        (0_u128..=16).prop_map(|sixteenth| sixteenth << 60),
        (0_u128..4).prop_map(|below| END - below),
        0_u128..4,
    ];
    (bound.clone(), bound).prop_filter_map("an empty range", |(one, other)| {
        ShardRange::new(u64::try_from(one.min(other)).ok()?, one.max(other))
    })
}

fn selector() -> impl Strategy<Value = ShardSelector> {
    (key(), vec(range(), 1..8)).prop_map(|(key, ranges)| ShardSelector::from_ranges(key, ranges))
}

proptest! {
    #[test]
    fn reading_what_was_written_changes_nothing(selector in selector()) {
        prop_assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_hash_is_selected_when_a_range_holds_it(selector in selector(), hashes in vec(any::<u64>(), 8)) {
        let edges = selector.ranges().iter().flat_map(|range| {
            [range.first(), range.first().wrapping_sub(1), range.last(), range.last().wrapping_add(1)]
        });
        for hash in edges.chain(hashes) {
            let held = selector.ranges().iter().any(|range| range.contains(hash));
            prop_assert_eq!(selector.selects(hash), held, "{:#x}", hash);
        }
        let gaps = selector.spans().windows(2).all(|pair| pair[0].end() < u128::from(pair[1].first()));
        prop_assert!(gaps);
    }

    #[test]
    fn equal_shards_cover_each_hash_once(key in key(), shards in 1_u32..2_000, hash in any::<u64>()) {
        let count = NonZeroU32::new(shards).expect("some");
        let shards = ShardSelector::equal_shards(key, count);
        prop_assert_eq!(shards.len(), count.get() as usize);
        let ranges: Vec<_> = shards.iter().map(|shard| shard.ranges()[0]).collect();
        prop_assert_eq!((ranges[0].first(), ranges[ranges.len() - 1].end()), (0, END));
        let widths = ranges.iter().map(|range| range.end() - u128::from(range.first()));
        prop_assert!(widths.clone().max().unwrap_or_default() - widths.min().unwrap_or_default() <= 1);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end() == u128::from(pair[1].first())));
        prop_assert_eq!(shards.iter().filter(|shard| shard.selects(hash)).count(), 1);
    }

    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        ShardSelector::parse(&text).ok();
    }

    /// Words of the language in any order come closer to what the reader looks at.
    #[test]
    fn no_words_are_too_odd(words in vec(prop::sample::select(WORDS.to_vec()), 0..40)) {
        for joined in [words.concat(), words.join(" ")] {
            if let Ok(selector) = ShardSelector::parse(&joined) {
                prop_assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}

const WORDS: [&str; 40] = [
    "shardRange",
    "(",
    ")",
    "object",
    ".",
    "metadata",
    "uid",
    "namespace",
    ",",
    "'",
    "\"",
    "'''",
    "0x",
    "0",
    "8000000000000000",
    "'0x0000000000000000'",
    "'0x8000000000000000'",
    "'0x10000000000000000'",
    "||",
    "|",
    "&&",
    "!",
    "-",
    "+",
    "in",
    "?",
    ":",
    "[",
    "]",
    "{",
    "}",
    "true",
    "1e",
    ".5",
    "r'",
    "\\",
    "\\x4",
    "é",
    "//",
    "\n",
];
