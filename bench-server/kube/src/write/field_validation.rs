//! Finds and drops unknown fields: those that a kind does not have.

use kube_api::schema::{Kind, Message};
use serde_json::{Map, Value};

/// Drops the fields of `object` that `message` does not have. Returns their paths, such as
/// `spec.containers[0].x`. `kind` and `apiVersion` of `object` itself are kept. Reads the whole
/// object.
pub(crate) fn prune(message: &'static Message, object: &mut Map<String, Value>) -> Vec<String> {
    let mut unknown = Vec::new();
    let envelope = ["kind", "apiVersion"].map(|name| (name, object.remove(name)));
    fields(message, object, "", &mut unknown);
    for (name, value) in envelope {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    }
    unknown
}

fn fields(
    message: &'static Message,
    object: &mut Map<String, Value>,
    path: &str,
    unknown: &mut Vec<String>,
) {
    object.retain(|name, value| {
        let Some((_, field)) = message.find(name) else {
            unknown.push(format!("{path}{name}"));
            return false;
        };
        if let Kind::Object(below) = field.kind {
            match value {
                Value::Object(object) => {
                    fields(below, object, &format!("{path}{name}."), unknown);
                }
                Value::Array(items) => {
                    for (i, item) in items.iter_mut().enumerate() {
                        if let Value::Object(object) = item {
                            fields(below, object, &format!("{path}{name}[{i}]."), unknown);
                        }
                    }
                }
                _ => {}
            }
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use kube_api::schema::POD;
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_named_by_their_path() {
        let Value::Object(mut pod) = json!({
            "kind": "Pod", "apiVersion": "v1", "extra": 1,
            "metadata": {"name": "x", "labels": {"any": "key"}, "nmae": "y"},
            "spec": {"containers": [{"name": "a"}, {"name": "b", "imgae": "i"}], "volumes": [{"name": "v", "emptyDir": {}}]},
        }) else {
            panic!("an object");
        };
        assert_eq!(
            prune(&POD, &mut pod),
            ["extra", "metadata.nmae", "spec.containers[1].imgae"]
        );
        assert!(prune(&POD, &mut pod).is_empty());
        assert_eq!(pod["kind"], "Pod");
        assert_eq!(pod["spec"]["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(pod["metadata"]["labels"], json!({"any": "key"}));
    }
}
