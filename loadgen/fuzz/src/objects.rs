//! Fuzz targets for objects as clients write them and as etcd stores them: protobuf, JSON, and the
//! envelope around them.

use kube_api::custom_resource::{custom_resource_from_json, custom_resource_to_json};
use kube_api::schema::POD;
use kube_api::{JsonDeltaWriter, Metadata, envelope, item_object, list_item};
use serde_json::{Map, Value};
use workloads::{DataSet, Scenario};

use super::{refusal, texts};

/// Checks a pod in JSON: an accepted pod is written as JSON that encodes to the same bytes.
///
/// # Panics
/// If a rule is broken.
pub fn from_json(bytes: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Map<String, Value>>(bytes) else {
        return;
    };
    let Some(encoded) = encoded(&object) else {
        return;
    };
    let json = written(&encoded).expect("what was encoded is well formed");
    let again = serde_json::from_slice(&json).expect("what was written is JSON");
    let json = String::from_utf8_lossy(&json);
    let again =
        self::encoded(&again).unwrap_or_else(|| panic!("was written and is refused: {json}"));
    assert_eq!(self::written(&again), self::written(&encoded), "{json}");
}

/// Returns a pod in protobuf, or `None` if it is refused.
fn encoded(object: &Map<String, Value>) -> Option<Vec<u8>> {
    let mut encoded = Vec::new();
    let accepted = kube_api::from_json(&POD, object, &mut encoded).is_ok();
    accepted.then_some(encoded)
}

/// Returns an encoded pod in JSON, or `None` if it is malformed.
fn written(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut json = Vec::new();
    let well_formed = kube_api::to_json(&POD, encoded, "", &mut json).is_ok();
    well_formed.then_some(json)
}

/// Returns pods in JSON.
pub fn pods_as_json() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = pods().iter().filter_map(|pod| written(pod)).collect();
    seeds.extend(texts(&[
        r#"{"metadata":{"name":"a","labels":{"b":"c"},"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[{"name":"x","resources":{"limits":{"cpu":"1.5","memory":"1Gi"}},"ports":[{"containerPort":80}]}]},"status":{"phase":"Running"}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"deletionGracePeriodSeconds":-1,"finalizers":["a",null]},"spec":{"nodeSelector":null,"priority":2147483648}}"#,
    ]));
    seeds
}

/// Checks the whole input and its two halves as encoded pods: JSON that is written as a difference
/// is the same as the JSON of the object, and both writers refuse the same objects. Metadata is
/// read, and gets a version without losing any field.
///
/// # Panics
/// If a rule is broken.
pub fn to_json(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    // The whole input twice, which has no difference, then both halves, and the whole again.
    let mut writer = JsonDeltaWriter::new(&POD, "");
    for object in [bytes, bytes, first, second, bytes] {
        let mut delta = Vec::new();
        let accepted = writer.put(object, &mut delta).is_ok();
        let json = written(object);
        assert_eq!(accepted, json.is_some(), "the two writers disagree");
        let Some(json) = json else {
            continue;
        };
        assert_eq!(delta, json);
        // `fieldsV1` is copied, not parsed.
        let parsed = serde_json::from_slice::<Value>(&json);
        let copied = json.windows(8).any(|part| part == b"fieldsV1");
        assert!(
            copied || parsed.is_ok(),
            "{parsed:?}: {}",
            String::from_utf8_lossy(&json)
        );
    }
    if let Ok(item) = list_item(bytes, "1234") {
        let object = item_object(&item);
        let version = Metadata::read(object).map(|metadata| metadata.resource_version);
        assert_eq!(version, Ok(b"1234".as_slice()));
    }
}

/// Returns encoded pods of a built-in data set.
pub fn pods() -> Vec<Vec<u8>> {
    let scenario = Scenario::named("pods-150k").expect("is built in");
    let pods = DataSet::new(&scenario.data_sets[0]);
    let values = (0..3).map(|i| pods.value(i));
    values
        .filter_map(|value| envelope::open(&value).ok().map(<[u8]>::to_vec))
        .collect()
}

/// Checks the stored value of an object: the opened object is a part of the value, and an envelope
/// of this object opens to the same.
///
/// # Panics
/// If a rule is broken.
pub fn envelope(bytes: &[u8]) {
    refusal(envelope::type_meta(bytes));
    refusal(envelope::open_exactly(bytes, "v1", "Pod"));
    if let Ok(object) = envelope::open(bytes) {
        let sealed = envelope::seal("v1", "Pod", object);
        assert_eq!(envelope::open_exactly(&sealed, "v1", "Pod"), Ok(object));
        assert_eq!(
            sealed.len(),
            envelope::sealed_len("v1", "Pod", object.len())
        );
    }
}

/// Returns envelopes of pods.
pub fn envelopes() -> Vec<Vec<u8>> {
    pods()
        .iter()
        .map(|pod| envelope::seal("v1", "Pod", pod))
        .collect()
}

/// Checks a custom resource in JSON: an accepted one is written as JSON that is stored as the same
/// bytes.
///
/// # Panics
/// If a rule is broken.
pub fn custom_resource(bytes: &[u8]) {
    let Ok(kept) = custom_resource_from_json(bytes) else {
        return;
    };
    let mut json = Vec::new();
    custom_resource_to_json(&kept, &mut json).expect("what was kept is well formed");
    let again = custom_resource_from_json(&json).expect("what was written is accepted");
    let mut json_again = Vec::new();
    custom_resource_to_json(&again, &mut json_again).expect("what was kept is well formed");
    assert_eq!(
        String::from_utf8_lossy(&json_again),
        String::from_utf8_lossy(&json)
    );
}

/// Returns custom resources.
pub fn custom_resources() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"apiVersion":"a.b/v1","kind":"C","metadata":{"name":"x","resourceVersion":"7","unknown":1},"spec":{"a":[1,2.5,-3e10,null,true,"é\u0000"]},"zz":{}}"#,
        r#"{"metadata":null}"#,
    ])
}
