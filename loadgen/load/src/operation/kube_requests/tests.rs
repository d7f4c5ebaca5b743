//! Tests of object texts, and of responses that are right, wrong, or defer a request.

use serde_json::json;
use workloads::SmallRequest;

use super::text::{change, changed, check_deletion};
use super::*;

fn calls(kind: &'static str, value: Option<&Values>) -> KubeRequests {
    let like = json!({
        "metadata": {"name": "like", "namespace": "team", "generateName": "like-", "labels": {"app": "a"}},
        "data": {"payload": "xyz"},
    });
    let about = KubeRequestConfig {
        resource: "things",
        kind,
        like: vec![like.as_object().expect("an object").clone()],
        objects: 10,
        made: made_by("run"),
        load: "case/load".to_owned(),
        keys: Distribution::Uniform,
        seed: 1,
        values: value,
    };
    KubeRequests::new(SmallRequest::Update, about)
}

fn reply(status: u16, body: &Value) -> Reply {
    let status = StatusCode::from_u16(status).expect("a status");
    Reply::new(status, body.to_string().into())
}

fn completion(before: i64) -> KubeCompletion {
    KubeCompletion::of(before)
}

/// Returns object 3 of the load as a server sends it.
fn sent(calls: &KubeRequests, revision: &str, change: &str) -> Value {
    json!({
        "kind": calls.kind,
        "metadata": {
            "name": calls.objects[3].name,
            "resourceVersion": revision,
            "annotations": {"loadgen.test/change": change},
        },
    })
}

#[test]
fn an_update_sends_back_what_came_with_one_annotation_changed() {
    let text = br#"{"metadata":{"annotations":{"loadgen.test/change":"0000000000000000"},"managedFields":[{"f:loadgen.test/change":{}}]},"added":[1]}"#;
    let changed = changed(text, 0xab).expect("it has the annotation");
    let before = String::from_utf8_lossy(text).into_owned();
    let expected = before.replace("0000000000000000", "00000000000000ac");
    assert_eq!(changed, expected.as_bytes());
    assert_eq!(super::text::changed(b"[]", 1), None);
    assert_ne!(change(0), "0".repeat(16), "the first one changes something");
}

#[test]
fn an_annotation_is_changed_however_it_is_written() {
    for text in [
        r#"{"metadata": {"name": "a", "annotations": {"loadgen.test/change": "0000000000000000"}}}"#,
        r#"{"metadata":{"name":"a","annotations":{"loadgen.test\/change":"0000000000000000"}}}"#,
        r#"{"metadata":{"name":"a","annotations":{"loadgen.test/change":"by somebody else"}}}"#,
        r#"{"metadata":{"name":"a","annotations":{"loadgen.test/change":"short"}}}"#,
        r#"{"metadata":{"name":"a","annotations":null}}"#,
        r#"{"metadata":{"name":"a"},"spec":{"loadgen.test/change":"not here, please"}}"#,
        r#"{"metadata":{"name":"a","annotations":{"loadgen.test/change":"0000000000000000"}},"copy":{"loadgen.test/change":"0000000000000000"}}"#,
    ] {
        let before: Value = serde_json::from_str(text).expect("JSON");
        let changed = changed(text.as_bytes(), 0xab).expect(text);
        let mut after: Value = serde_json::from_slice(&changed).expect("JSON");
        let written = after["metadata"]["annotations"]["loadgen.test/change"].take();
        assert_eq!(written, "00000000000000ac", "{text}");
        let mut expected = before;
        expected["metadata"]["annotations"]["loadgen.test/change"].take();
        assert_eq!(after, expected, "nothing else is changed");
    }
}

#[test]
fn a_made_object_has_its_name_its_label_and_a_value_where_one_is_given() {
    let values: Values = toml::from_str("bytes = 300").expect("values");
    let valued = calls("ConfigMap", Some(&values));
    let text = valued.like(0).text("it", &valued.own_value(0, 0));
    let object: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(object["metadata"]["name"], "it");
    assert_eq!(object["metadata"]["labels"]["app"], "a");
    assert_eq!(
        object["metadata"]["labels"]["loadgen.test/load"],
        valued.tag.as_str()
    );
    assert!(object["metadata"].get("generateName").is_none());
    assert_eq!(object["data"]["value"].as_str().map(str::len), Some(300));
    assert_eq!(valued.like(0).collection, "/api/v1/namespaces/team/things");
    let plain = calls("ConfigMap", None);
    let text = plain.like(0).text("it", &plain.own_value(0, 0));
    let object: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(object["data"], json!({"payload": "xyz"}));
}

#[test]
fn a_response_must_be_the_object_with_the_change_at_a_later_version() {
    let calls = calls("Thing", None);
    let check = |before: i64, status: u16, body: &Value| {
        let about = (SmallRequest::Update, &calls.objects[3], 5);
        calls.check_object(about, &completion(before), &reply(status, body))
    };
    let right = sent(&calls, "8", &change(5));
    let checked = check(7, 200, &right).expect("it is right");
    assert_eq!(checked.rewritten_at, Some(8));
    assert_eq!(calls.objects[3].held.lock().revision, 8);
    let wrong = |before, body: &Value| check(before, 200, body).expect_err("wrong").to_string();
    assert!(wrong(8, &right).contains("stale resourceVersion: 8 after 8"));
    assert!(wrong(7, &sent(&calls, "8", &change(4))).contains("annotation"));
    assert!(wrong(7, &sent(&calls, "", &change(5))).contains("resourceVersion is ``"));
    let mut other = right.clone();
    other["metadata"]["name"] = "another".into();
    assert!(wrong(7, &other).contains("a Thing of another name"));
    other["kind"] = "Pod".into();
    assert!(wrong(7, &other).contains("its kind is `Pod`"));
}

#[test]
fn a_conflict_has_the_object_read_again_and_other_refusals_are_counted_by_reason() {
    let calls = calls("Thing", None);
    let status = |reason: &str| {
        let name = &calls.objects[3].name;
        json!({"kind": "Status", "reason": reason, "message": format!("{name} is wrong")})
    };
    let about = (SmallRequest::Update, &calls.objects[3], 5);
    calls.objects[3].hold(7, &Bytes::from_static(b"{}"));
    let conflict = calls.check_object(about, &completion(7), &reply(409, &status("Conflict")));
    assert!(conflict.expect("it is sent again").conflict);
    assert_eq!(calls.objects[3].held.lock().revision, 0, "it is to be read");
    // An object received meanwhile is later, and is kept.
    calls.objects[3].hold(9, &Bytes::from_static(b"{}"));
    let conflict = calls.check_object(about, &completion(7), &reply(409, &status("Conflict")));
    assert!(conflict.expect("it is sent again").conflict);
    assert_eq!(calls.objects[3].held.lock().revision, 9);
    let refused = calls.check_object(about, &completion(7), &reply(422, &status("Invalid")));
    let refused = refused.expect_err("it is refused").to_string();
    assert_eq!(refused, "update: 422 Invalid: NAME is wrong");
}

#[test]
fn a_deletion_is_answered_with_the_object_or_a_status_about_it() {
    let deleted = |body: Value| check_deletion(body.to_string().as_bytes(), "Thing", "it");
    assert_eq!(
        deleted(json!({"kind": "Status", "details": {"name": "it"}})),
        Ok(())
    );
    assert_eq!(
        deleted(json!({"kind": "Thing", "metadata": {"name": "it"}})),
        Ok(())
    );
    assert!(deleted(json!({"kind": "Status", "details": {"name": "other"}})).is_err());
    assert!(deleted(json!({"kind": "Thing", "metadata": {"name": "other"}})).is_err());
    assert!(deleted(json!([])).is_err());
}

#[test]
fn what_an_operation_does_follows_from_the_seed_and_its_number() {
    let (one, again) = (calls("Thing", None), calls("Thing", None));
    let objects = |calls: &KubeRequests| -> Vec<usize> {
        let planned = (0..50).map(|n| calls.operation(n, &mut OwnKeys::default()));
        let object = planned.map(|planned| match planned {
            PlannedRequest::Object { object, .. } => object,
            _ => usize::MAX,
        });
        object.collect()
    };
    assert_eq!(objects(&one), objects(&again));
    assert!(objects(&one).iter().all(|object| *object < 10));
}
