//! JSON patches (RFC 6902). Before an operation is applied, it is checked that the object does not
//! become larger or more deeply nested than a request may be.

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use kube_api::Status;
use serde_json::{Map, Value};

/// The maximum number of operations in a patch, as in kube-apiserver.
pub(super) const MAX_OPERATIONS: usize = 10_000;

/// The maximum number of bytes of JSON that the copy operations of a patch may add: apiserver's
/// `JSONPatchMaxCopyBytes`. Without a limit, each copy of an object into itself would double it.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The maximum depth of nesting. Deeper JSON cannot be parsed again.
const MAX_DEPTH: usize = 127;

/// A parsed patch.
#[derive(Debug, Clone)]
pub(crate) struct Operations(json_patch::Patch);

impl Operations {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// 400 for a body that is not a list of objects, 422 for objects that are not operations, 413
    /// for more than 10,000 operations.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Status> {
        let operations: Vec<Map<String, Value>> =
            serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
        if operations.len() > MAX_OPERATIONS {
            return Err(Status::request_too_large(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        let operations = operations.into_iter().map(Value::Object).collect();
        serde_json::from_value(Value::Array(operations))
            .map(Self)
            .map_err(|_| Status::patch_rejected())
    }

    /// Applies the patch to `object`, whose value is unspecified after an error. An operation reads
    /// the whole value that it adds, replaces (the new one), moves or copies.
    ///
    /// # Errors
    /// 422 if an operation's path is not in the object, a test fails, or the result is not an
    /// object, has more than [`MAX_COPIED`] bytes of copies or is nested deeper than [`MAX_DEPTH`].
    pub(super) fn apply(&self, object: &mut Value) -> Result<(), Status> {
        let mut copied = 0;
        for operation in self.0.iter() {
            let fits = match operation {
                PatchOperation::Add(add) => fits(&add.path, &add.value),
                PatchOperation::Replace(replace) => fits(&replace.path, &replace.value),
                PatchOperation::Move(from) => object
                    .pointer(from.from.as_str())
                    .is_none_or(|moved| fits(&from.path, moved)),
                PatchOperation::Copy(copy) => {
                    object.pointer(copy.from.as_str()).is_none_or(|source| {
                        copied += encoded_len(source);
                        copied <= MAX_COPIED && fits(&copy.path, source)
                    })
                }
                PatchOperation::Remove(_) | PatchOperation::Test(_) => true,
            };
            // The object is discarded after an error, so nothing needs to be undone.
            let one = std::slice::from_ref(operation);
            if !fits || json_patch::patch_unsafe(object, one).is_err() {
                return Err(Status::patch_rejected());
            }
        }
        match object {
            Value::Object(_) => Ok(()),
            _ => Err(Status::patch_rejected()),
        }
    }
}

/// Returns the Status for a body that is not a patch.
pub(super) fn unreadable(error: &serde_json::Error) -> Status {
    Status::bad_request(format!("error decoding patch: {error}"))
}

/// Returns whether `value` at `path` is not nested too deeply.
fn fits(path: &Pointer, value: &Value) -> bool {
    let above = path.count();
    above < MAX_DEPTH && !is_deeper(value, MAX_DEPTH - above)
}

fn is_deeper(value: &Value, than: usize) -> bool {
    let below = |value: &Value| than == 0 || is_deeper(value, than - 1);
    match value {
        Value::Object(_) | Value::Array(_) if than == 0 => true,
        Value::Object(fields) => fields.values().any(below),
        Value::Array(items) => items.iter().any(below),
        _ => false,
    }
}

/// Returns the length of the value's JSON, in bytes.
fn encoded_len(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting bytes cannot fail");
    count.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(operations: &Value, object: &mut Value) -> Result<(), Status> {
        Operations::parse(operations.to_string().as_bytes())?.apply(object)
    }

    /// Without the limit, 35 copies would multiply the object's size by 2³⁵.
    #[test]
    fn copies_of_the_whole_into_itself_end_at_the_budget() {
        let mut object = json!({"metadata": {"name": "x".repeat(1_000)}});
        let copy =
            |i| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/a{i}")});
        let few: Value = (0..10).map(copy).collect();
        applied(&few, &mut object.clone()).expect("a megabyte");
        let many: Value = (0..35).map(copy).collect();
        let refused = applied(&many, &mut object).expect_err("3 MiB is the most");
        assert_eq!(refused, Status::patch_rejected());
        assert!(encoded_len(&object) < 2 * MAX_COPIED);
    }

    #[test]
    fn nothing_is_nested_deeper_than_it_could_be_read() {
        let deep = (0..MAX_DEPTH - 1).fold(json!(1), |inner, _| json!({"a": inner}));
        let put = |path: &str| json!([{"op": "move", "from": "/deep", "path": path}]);
        let mut object = json!({"deep": deep, "b": {}});
        applied(&put("/a"), &mut object.clone()).expect("just as deep as may be");
        applied(&put("/b/a"), &mut object).expect_err("one level more");
        // Each step nests the whole object one level deeper.
        let steps = (0..5_000).flat_map(|_| {
            [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ]
        });
        let steps: Value = steps.take(MAX_OPERATIONS).collect();
        applied(&steps, &mut json!({"a": {}})).expect_err("5,000 levels");
    }
}
