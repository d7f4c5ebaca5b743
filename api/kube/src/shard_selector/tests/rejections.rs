//! Each error has an apiserver's text, which clients show to users.

use super::*;

#[test]
fn every_error_has_its_text() {
    let good = uid(ZERO, HALF);
    let namespace = of("object.metadata.namespace", ZERO, HALF);
    for blank in ["", " ", "\t\r\n"] {
        assert_eq!(
            error_of(blank),
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
        assert_eq!(error_of(&text), expected, "{text}");
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
        assert_eq!(error_of(text), expected, "{text}");
    }
    for (arguments, count) in [("", 0), ("object.metadata.uid", 1), ("1, 2, 3, 4", 4)] {
        assert_eq!(
            error_of(&format!("shardRange({arguments})")),
            format!("shardRange() requires exactly 3 arguments, got {count}")
        );
    }
    for (field, kind) in [
        ("'object.metadata.uid'", 5),
        ("f().metadata.uid", 1),
        ("[object]", 4),
    ] {
        assert_eq!(
            error_of(&of(field, ZERO, HALF)),
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
            error_of(&of(path, ZERO, HALF)),
            format!(
                "unsupported field path \"{path}\"; supported: object.metadata.uid, object.metadata.namespace"
            )
        );
    }
    assert_eq!(
        error_of(&format!("{good} || {good} || {namespace}")),
        "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\""
    );
    for (start, end) in [(HALF, HALF), (HALF, ZERO), (WHOLE, WHOLE), (WHOLE, HALF)] {
        assert_eq!(
            error_of(&uid(start, end)),
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
            error_of(&literal(written)),
            format!("hexStart{why}"),
            "{written}"
        );
        let as_end = literal(&format!("'{ZERO}', {written}")).replace(&format!(", '{WHOLE}'"), "");
        assert_eq!(error_of(&as_end), format!("hexEnd{why}"), "{written}");
    }
}

#[test]
fn a_text_that_is_not_an_expression_is_a_syntax_error() {
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
        let said = error_of(&text);
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
        assert_eq!(error_of(text), format!("CEL parse error: {said}"));
    }
    let nested = |depth| format!("{}{good}{}", "(".repeat(depth), ")".repeat(depth));
    assert!(ShardSelector::parse(&nested(200)).is_ok());
    assert_eq!(
        error_of(&"é".repeat(100_001)),
        "CEL parse error: expression code point size exceeds limit: size: 100001, limit 100000"
    );
    for deep in ["(", "[", "{", "!(", "f(", "a[", "1+2*(", "a?b:("] {
        let said = error_of(&deep.repeat(10_000));
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
