//! Converts objects to the form in which they are sent, so that an apiserver accepts them and no
//! controller of its cluster acts on them.
//!
//! An object of a data set is one that an apiserver has stored: a pod that runs on a node, created
//! by a ReplicaSet, with a status. Sent unchanged, it would be refused or soon be deleted, since
//! its service account, its owner and its node do not exist. The object that is sent has none of
//! these, and names a scheduler that does not exist, so that the pod is never scheduled.

use kube_api::schema::{CONFIG_MAP, Message, POD};
use kube_api::{envelope, from_json, to_json};
use serde_json::{Map, Value, json};
use workloads::{DataSet, Kind};

/// The name of a scheduler that does not exist.
pub(super) const SCHEDULER: &str = "loadgen.test-none";
/// The service account of pods, which every namespace has, or gets from the run.
pub(super) const ACCOUNT: &str = "default";
/// Metadata that the server sets, or that refers to objects which do not exist.
const NOT_SENT: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "selfLink",
    "managedFields",
    "ownerReferences",
];
/// Fields of a pod's spec that are not sent: its node, and what admission computes and compares.
const NOT_SENT_OF_SPEC: [&str; 4] = ["nodeName", "priority", "preemptionPolicy", "serviceAccount"];

/// Returns the kind and the message type of a data set's objects.
pub(super) fn kind(data: &DataSet) -> (&'static str, &'static Message) {
    match data.spec().kind {
        Kind::Pods => ("Pod", &POD),
        _ => ("ConfigMap", &CONFIG_MAP),
    }
}

/// Returns object `i` as it is sent to `namespace`, in JSON and without its kind. About 100 µs for
/// a pod.
///
/// # Errors
/// Those of [`body`].
pub(super) fn json_object(
    data: &DataSet,
    i: u64,
    namespace: &str,
) -> Result<Map<String, Value>, String> {
    let (_, message) = kind(data);
    let stored = data.value(i);
    let object = envelope::open(&stored).map_err(|e| e.to_string())?;
    let mut text = Vec::with_capacity(stored.len() * 2);
    to_json(message, object, "", &mut text).map_err(|e| e.to_string())?;
    let mut object = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    change(&mut object, namespace);
    Ok(object)
}

/// Returns object `i` as it is sent to `namespace`, in protobuf. About 100 µs for a pod.
///
/// # Errors
/// The error of an object that does not fit the schema, which no object of a data set has.
pub(super) fn body(data: &DataSet, i: u64, namespace: &str) -> Result<Vec<u8>, String> {
    let (kind, message) = kind(data);
    let object = json_object(data, i, namespace)?;
    let mut encoded = Vec::with_capacity(data.value_len(i));
    from_json(message, &object, &mut encoded).map_err(|e| e.to_string())?;
    Ok(envelope::seal("v1", kind, &encoded))
}

fn change(object: &mut Map<String, Value>, namespace: &str) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|field, _| !NOT_SENT.contains(&field.as_str()));
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    object.remove("status");
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        spec.retain(|field, _| !NOT_SENT_OF_SPEC.contains(&field.as_str()));
        spec.insert("schedulerName".to_owned(), SCHEDULER.into());
        spec.insert("serviceAccountName".to_owned(), ACCOUNT.into());
        spec.insert("automountServiceAccountToken".to_owned(), json!(false));
    }
}

#[cfg(test)]
mod tests {
    use kube_api::Metadata;
    use kube_api::protobuf::find_bytes;
    use workloads::DataSetSpec;

    use super::*;

    fn data(kind: Kind) -> DataSet {
        DataSet::new(&DataSetSpec {
            name: "own".to_owned(),
            kind,
            objects: 4.try_into().expect("some"),
            object_size: 2_000.try_into().ok().filter(|_| kind == Kind::ConfigMaps),
            object_sizes: None,
            namespaces: 2.try_into().ok(),
            nodes: 2.try_into().ok().filter(|_| kind == Kind::Pods),
            seed: 1,
        })
    }

    #[test]
    fn a_pod_keeps_its_name_and_labels_and_leads_nowhere() {
        let data = data(Kind::Pods);
        let body = body(&data, 3, "run-0001").expect("a pod");
        let object = envelope::open(&body).expect("sealed");
        let stored = data.value(3);
        let stored = envelope::open(&stored).expect("sealed");
        let (sent, before) = (Metadata::read(object), Metadata::read(stored));
        let (sent, before) = (sent.expect("metadata"), before.expect("metadata"));
        assert_eq!((sent.name, sent.namespace), (before.name, &b"run-0001"[..]));
        assert_eq!(sent.uid, b"");
        let spec = find_bytes(object, 2).expect("well-formed").expect("a spec");
        let text = |number| {
            find_bytes(spec, number)
                .expect("well-formed")
                .unwrap_or_default()
        };
        assert_eq!(
            (text(10), text(19)),
            (&b""[..], SCHEDULER.as_bytes()),
            "node and scheduler"
        );
        assert_eq!(text(8), ACCOUNT.as_bytes());
    }

    #[test]
    fn a_config_map_keeps_its_payload() {
        let data = data(Kind::ConfigMaps);
        let body = body(&data, 0, "run-0000").expect("a ConfigMap");
        let payload = |sealed: &[u8]| {
            let object = envelope::open(sealed).expect("sealed");
            find_bytes(object, 2)
                .expect("well-formed")
                .expect("data")
                .to_vec()
        };
        assert_eq!(payload(&body), payload(&data.value(0)));
    }
}
