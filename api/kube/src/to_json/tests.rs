use super::text::JsonBuffer;
use super::*;
use crate::protobuf::{Fields, WireValue};
use crate::schema::Kind;

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

fn pod_protobuf(name: &str, labels: &[(&str, &str)]) -> Vec<u8> {
    let labels: serde_json::Map<_, _> = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    let pod = serde_json::json!({
        "metadata": {"name": name, "labels": labels, "managedFields": [{"manager": "m", "time": "2026-02-03T04:05:06Z", "fieldsV1": {"f:a": {}}}]},
        "spec": {"containers": [{
            "name": "c",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"port": "http", "path": "/<&>"}},
            "readinessProbe": {"tcpSocket": {"port": 80}},
        }]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}]},
    });
    let mut out = Vec::new();
    crate::from_json(
        &crate::schema::POD,
        pod.as_object().expect("an object"),
        &mut out,
    )
    .expect("a pod");
    out
}

#[test]
fn every_kind_of_field_is_shown_as_go_shows_it() {
    let mut out = Vec::new();
    to_json(
        &crate::schema::POD,
        &pod_protobuf("n", &[("b", "2"), ("a", "1")]),
        r#""kind":"Pod","apiVersion":"v1""#,
        &mut out,
    )
    .expect("a pod");
    let expected = concat!(
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"n","labels":{"a":"1","b":"2"},"#,
        r#""managedFields":[{"manager":"m","time":"2026-02-03T04:05:06Z","fieldsV1":{"f:a":{}}}]},"#,
        r#""spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"1Gi"}},"#,
        r#""livenessProbe":{"httpGet":{"path":"/\u003c\u0026\u003e","port":"http"}},"readinessProbe":{"tcpSocket":{"port":80}}}]},"#,
        r#""status":{"conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":null}]}}"#,
    );
    assert_eq!(String::from_utf8(out).expect("JSON is UTF-8"), expected);
}

#[test]
fn an_empty_message_has_the_fields_that_go_always_writes() {
    let mut out = Vec::new();
    to_json(&crate::schema::POD, &[], "", &mut out).expect("an empty pod");
    assert_eq!(
        String::from_utf8(out).expect("JSON is UTF-8"),
        r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#
    );
}

proptest::proptest! {
    #[test]
    fn damaged_objects_are_refused_or_shown_but_never_end_the_server(at: proptest::sample::Index, byte: u8, cut: proptest::sample::Index) {
        let mut object = pod_protobuf("name", &[("key", "value")]);
        let at = at.index(object.len());
        object[at] = byte;
        object.truncate(1 + cut.index(object.len()));
        let mut out = Vec::new();
        // Only damage inside `fieldsV1`, which is copied unchanged, may appear in the JSON.
        if to_json(&crate::schema::POD, &object, "", &mut out).is_ok() {
            let (first, last) = (out.first().copied(), out.last().copied());
            proptest::prop_assert_eq!((first, last), (Some(b'{'), Some(b'}')));
        }
    }
}

/// Returns the message with its fields in descending order of their numbers, at every level of
/// nesting. Lists keep their order.
fn turned(message: &'static Message, bytes: &[u8]) -> Vec<u8> {
    let mut fields: Vec<_> = Fields::new(bytes)
        .collect::<Result<_, _>>()
        .expect("well formed");
    fields.sort_by_key(|field| std::cmp::Reverse(field.number));
    let mut out = Vec::new();
    for field in fields {
        let position = message.position(field.number).map(usize::from);
        match (position.map(|at| message.fields()[at].kind), field.wire) {
            (Some(Kind::Object(inner)), WireValue::Bytes(bytes)) => {
                crate::protobuf::put_bytes(&mut out, field.number, &turned(inner, bytes));
            }
            _ => out.extend_from_slice(&bytes[field.start..field.end]),
        }
    }
    out
}

#[test]
fn fields_are_shown_alike_in_whatever_order_they_come() {
    let scenario = workloads::Scenario::named("pods-150k").expect("built in");
    let value = workloads::DataSet::new(&scenario.data_sets[0]).value(7);
    let pod = crate::envelope::open(&value).expect("enveloped");
    let json = |pod: &[u8]| {
        let mut out = b"before".to_vec();
        to_json(&crate::schema::POD, pod, "", &mut out).expect("a pod");
        String::from_utf8(out).expect("JSON is UTF-8")
    };
    let expected = json(pod);
    assert!(expected.starts_with("before{\"metadata\":{\"name\":"));
    assert_eq!(json(&turned(&crate::schema::POD, pod)), expected);
    // The last value of a repeated field wins.
    let twice = [&pod_protobuf("other", &[])[..], pod].concat();
    assert_eq!(json(&twice), expected);
}

#[test]
fn lists_and_maps_may_be_interrupted() {
    let entry = |key: u8| [0x5a, 3, 0x0a, 1, key];
    // An empty selfLink, and an unknown field.
    for between in [&[0x22, 0][..], &[0xf2, 0x03, 0]] {
        // Labels in order and out of order, with finalizers between them.
        for (first, second) in [(b'a', b'b'), (b'b', b'a')] {
            let metadata = [
                &entry(first)[..],
                &[0x72, 1, b'x'],
                between,
                &entry(second),
                between,
                &[0x72, 1, b'y'],
            ]
            .concat();
            for message in [&crate::schema::POD, &crate::schema::NODE] {
                let mut object = Vec::new();
                crate::protobuf::put_bytes(&mut object, 1, &metadata);
                let mut out = Vec::new();
                to_json(message, &object, "", &mut out).expect("well formed");
                let text = String::from_utf8(out).expect("JSON is UTF-8");
                let expected = r#"{"metadata":{"labels":{"a":"","b":""},"finalizers":["x","y"]},"#;
                assert!(text.starts_with(expected), "{text}");
            }
        }
    }
    // A message whose wire order is not JSON order: a container, with arguments.
    let container = [&b"\x1a\x01a\x2a\x00\x1a\x01b"[..], b"\xa2\x01\x01p"].concat();
    let mut out = Vec::new();
    let message = &crate::schema::containers::CONTAINER;
    to_json(message, &container, "", &mut out).expect("well formed");
    assert_eq!(
        String::from_utf8(out).expect("JSON is UTF-8"),
        r#"{"name":"","command":["a","b"],"resources":{},"terminationMessagePolicy":"p"}"#
    );
}

#[test]
fn strings_of_every_length_are_copied_whole() {
    let alphabet: Vec<u8> = (b'a'..=b'z').cycle().take(100).collect();
    for length in 0..alphabet.len() {
        for special in [None, Some(length / 2), length.checked_sub(1)] {
            let mut text = alphabet[..length].to_vec();
            let mut expected = text.clone();
            if let Some(at) = special.filter(|at| *at < length) {
                text[at] = b'\\';
                expected.splice(at..=at, *b"\\\\");
            }
            let mut out = Vec::new();
            let mut writer = JsonBuffer::new(&mut out);
            writer.string(&text);
            drop(writer);
            assert_eq!(out, [b"\"", &expected[..], b"\""].concat());
            // JSON is copied unchanged, except for HTML characters, which are escaped.
            let (mut out, mut expected) = (Vec::new(), text.clone());
            if let Some(at) = special.filter(|at| *at < length) {
                text[at] = b'<';
                expected.splice(at..=at, *b"\\u003c");
            }
            let mut writer = JsonBuffer::new(&mut out);
            writer.json(&text);
            drop(writer);
            assert_eq!(out, expected);
        }
    }
}
