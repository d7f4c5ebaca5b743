//! Patches: descriptions of changes to an object, which name only what changes.
//!
//! - [`operations`]: JSON patches
//! - [`strategic`]: strategic merge patches, for built-in kinds

mod operations;
mod strategic;

use kube_api::Status;
use kube_api::media_type::{JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};
use kube_api::schema::Message;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use self::operations::{Operations, unreadable};
use crate::resource::Resource;

/// A parsed patch.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(Operations),
    /// RFC 7396.
    Merge(Value),
    /// Strategic merge patch, with the schema of the kind.
    Strategic(&'static Message, Map<String, Value>),
}

impl Patch {
    /// Checks the media type.
    ///
    /// # Errors
    /// 415 if it is not a supported patch of this kind.
    pub(crate) fn check_media_type(media_type: &str, resource: &Resource) -> Result<(), Status> {
        match (media_type, resource.schema()) {
            (JSON_PATCH | MERGE_PATCH, _) | (STRATEGIC_MERGE_PATCH, Some(_)) => Ok(()),
            (_, None) => Err(Status::unsupported_media_type(resource.patch_media_types())),
            _ => Err(Status::unsupported_patch()),
        }
    }

    /// Checks that a body is JSON, which is all that is checked of it before the object is read.
    ///
    /// # Errors
    /// 400 if it is not.
    pub(crate) fn check_json(body: &[u8]) -> Result<(), Status> {
        match serde_json::from_slice::<IgnoredAny>(body) {
            Ok(IgnoredAny) => Ok(()),
            Err(_) => Err(Status::bad_request("invalid JSON patch")),
        }
    }

    /// Parses a body by its media type.
    ///
    /// # Errors
    /// 415 for a media type that is not a supported patch of this kind, 400 for a body that is not
    /// such a patch, 413 for a JSON patch with too many operations.
    pub(crate) fn parse(
        media_type: &str,
        resource: &Resource,
        body: &[u8],
    ) -> Result<Self, Status> {
        match (media_type, resource.schema()) {
            (JSON_PATCH, _) => Operations::parse(body).map(Self::Json),
            (MERGE_PATCH, _) => {
                match serde_json::from_slice(body).map_err(|error| unreadable(&error))? {
                    patch @ Value::Object(_) => Ok(Self::Merge(patch)),
                    _ => Err(Status::bad_request(
                        "error decoding patch: a merge patch of an object must be an object",
                    )),
                }
            }
            (STRATEGIC_MERGE_PATCH, Some(message)) => serde_json::from_slice(body)
                .map(|patch| Self::Strategic(message, patch))
                .map_err(|error| unreadable(&error)),
            _ => Self::check_media_type(media_type, resource).and(Err(Status::unsupported_patch())),
        }
    }

    /// Applies the patch to `object`.
    ///
    /// # Errors
    /// 422 if an operation's path is not in the object or a test fails, 500 if a strategic merge
    /// patch does not follow its format, as in kube-apiserver.
    pub(crate) fn apply(&self, object: &mut Map<String, Value>) -> Result<(), Status> {
        match self {
            Self::Strategic(message, patch) => {
                let mut patch = patch.clone();
                // The object keeps its kind and API version, regardless of the patch.
                patch.remove("kind");
                patch.remove("apiVersion");
                strategic::strategic_merge(message, object, patch)
                    .map_err(|error| Status::internal(error.to_string()))
            }
            Self::Merge(patch) => on_value(object, |value| {
                json_patch::merge(value, patch);
                Ok(())
            }),
            Self::Json(operations) => on_value(object, |value| operations.apply(value)),
        }
    }
}

/// Applies `change` to the map as a JSON value.
fn on_value(
    object: &mut Map<String, Value>,
    change: impl FnOnce(&mut Value) -> Result<(), Status>,
) -> Result<(), Status> {
    let mut value = Value::Object(std::mem::take(object));
    let changed = change(&mut value);
    if let Value::Object(fields) = value {
        *object = fields;
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::operations::MAX_OPERATIONS;
    use super::*;
    use crate::resource::RESOURCES;

    fn applied(media_type: &str, patch: Value) -> Result<Value, Status> {
        let Value::Object(mut object) =
            json!({"metadata": {"labels": {"a": "1", "with/slash": "2"}}, "list": [1, 2]})
        else {
            panic!("an object");
        };
        let patch = Patch::parse(media_type, &RESOURCES[0], patch.to_string().as_bytes())?;
        patch.apply(&mut object)?;
        Ok(Value::Object(object))
    }

    #[test]
    fn each_type_does_what_it_says() {
        let operations = json!([
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "remove", "path": "/metadata/labels/with~1slash"},
            {"op": "add", "path": "/list/-", "value": 3},
        ]);
        assert_eq!(
            applied(JSON_PATCH, operations).expect("fits"),
            json!({"metadata": {"labels": {"a": "1"}}, "list": [1, 2, 3]})
        );
        let merged = json!({"metadata": {"labels": {"with/slash": null}}, "list": [3]});
        let expected = json!({"metadata": {"labels": {"a": "1"}}, "list": [3]});
        assert_eq!(
            applied(MERGE_PATCH, merged.clone()).expect("fits"),
            expected
        );
        assert_eq!(
            applied(STRATEGIC_MERGE_PATCH, merged).expect("fits"),
            expected
        );
    }

    #[test]
    fn each_refusal_has_its_code() {
        let code = |media_type, patch| applied(media_type, patch).expect_err("refused").code;
        assert_eq!(code("application/apply-patch+yaml", json!({})), 415);
        assert_eq!(code("application/json", json!({})), 415);
        assert_eq!(code(JSON_PATCH, json!({})), 400);
        assert_eq!(code(MERGE_PATCH, json!([])), 400);
        assert_eq!(code(STRATEGIC_MERGE_PATCH, json!([])), 400);
        assert_eq!(
            code(STRATEGIC_MERGE_PATCH, json!({"$patch": "mangle"})),
            500
        );
        let absent = json!([{"op": "remove", "path": "/metadata/nothing"}]);
        assert_eq!(code(JSON_PATCH, absent), 422);
        let failing = json!([{"op": "test", "path": "/list/0", "value": 7}]);
        assert_eq!(code(JSON_PATCH, failing), 422);
        let whole = json!([{"op": "replace", "path": "", "value": 7}]);
        assert_eq!(code(JSON_PATCH, whole), 422);
        let many = vec![json!({"op": "test", "path": "", "value": 1}); MAX_OPERATIONS + 1];
        assert_eq!(code(JSON_PATCH, many.into()), 413);
        let custom = RESOURCES.iter().find(|resource| resource.is_custom());
        let custom = Patch::parse(STRATEGIC_MERGE_PATCH, custom.expect("widgets"), b"{}");
        assert_eq!(custom.expect_err("refused").code, 415);
    }
}
