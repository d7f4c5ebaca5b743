use super::*;

fn text(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    put_string(&mut out, bytes);
    String::from_utf8(out).expect("JSON is UTF-8")
}

#[test]
fn strings_are_escaped_as_go_does() {
    assert_eq!(text(b"plain"), r#""plain""#);
    assert_eq!(text(b"a\"b\\c"), r#""a\"b\\c""#);
    assert_eq!(
        text(b"\x00\x08\x0c\n\r\t\x1f\x7f"),
        "\"\\u0000\\b\\f\\n\\r\\t\\u001f\x7f\""
    );
    assert_eq!(text(b"<a & b>"), r#""\u003ca \u0026 b\u003e""#);
    assert_eq!(text("ümlaut 日本".as_bytes()), "\"ümlaut 日本\"");
    assert_eq!(
        text("x\u{2028}\u{2029}\u{2030}".as_bytes()),
        "\"x\\u2028\\u2029\u{2030}\""
    );
    assert_eq!(text(b"a\xff\xfeb"), "\"a\u{fffd}\u{fffd}b\"");
}
