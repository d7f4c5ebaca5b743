//! Custom resources. They are stored as JSON, and held in memory as a message whose field 1 is
//! `ObjectMeta`, as in built-in kinds, so that names, versions, labels, tables and partial metadata
//! are read in the same way.
//!
//! ```text
//! message Custom {
//!   ObjectMeta metadata = 1;  // with resourceVersion, inserted by [`crate::ListItem`]
//!   string before = 2;        // compact JSON before the text of metadata.resourceVersion
//!   string after = 3;         // and after it
//! }
//! ```
//! So the version is stored in one place, and writing the object as JSON takes three copies.

use serde_json::{Map, Number, Value};

use crate::from_json::{FromJsonError, from_json};
use crate::metadata::Metadata;
use crate::protobuf::{Malformed, find_bytes, put_bytes};
use crate::schema::OBJECT_META;
use crate::to_json::put_string;

const METADATA: u32 = 1;
const BEFORE: u32 = 2;
const AFTER: u32 = 3;

/// The error for a stored text that is not a custom resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CustomResourceError {
    /// It is not a JSON object.
    #[error("not a JSON object: {0}")]
    Json(String),
    /// Its metadata is not an `ObjectMeta`.
    #[error("metadata: {0}")]
    Metadata(#[from] FromJsonError),
}

/// Decodes a stored custom resource. Drops unknown metadata, as an apiserver does. Costs a parse of
/// the whole text.
///
/// # Errors
/// See [`CustomResourceError`].
pub fn custom_resource_from_json(stored: &[u8]) -> Result<Vec<u8>, CustomResourceError> {
    let mut object: Map<String, Value> = serde_json::from_slice(stored)
        .map_err(|error| CustomResourceError::Json(error.to_string()))?;
    let mut metadata = match object.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        None | Some(Value::Null) => Map::new(),
        Some(_) => {
            return Err(CustomResourceError::Json(
                "metadata is not an object".to_owned(),
            ));
        }
    };
    metadata.retain(|key, _| OBJECT_META.fields().iter().any(|field| field.name() == key));
    metadata.remove("resourceVersion");
    let mut raw = Vec::new();
    from_json(&OBJECT_META, &metadata, &mut raw)?;
    let (metadata_before, metadata_after) = members_around("resourceVersion", metadata);
    let (object_before, object_after) = members_around("metadata", object);
    let before = format!("{{{object_before}\"metadata\":{{{metadata_before}\"resourceVersion\":\"");
    let after = format!("\"{metadata_after}}}{object_after}}}");
    let mut out = Vec::with_capacity(raw.len() + before.len() + after.len() + 16);
    put_bytes(&mut out, METADATA, &raw);
    put_bytes(&mut out, BEFORE, before.as_bytes());
    put_bytes(&mut out, AFTER, after.as_bytes());
    Ok(out)
}

/// Appends the JSON of a custom resource. It includes `kind` and `apiVersion`, also for an item of
/// a list.
///
/// # Errors
/// [`Malformed`] when `custom` is not the output of [`custom_resource_from_json`].
pub fn custom_resource_to_json(custom: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    out.extend_from_slice(find_bytes(custom, BEFORE)?.unwrap_or_default());
    out.extend_from_slice(Metadata::read(custom)?.resource_version);
    out.extend_from_slice(find_bytes(custom, AFTER)?.unwrap_or_default());
    Ok(())
}

/// Returns the members of an object whose keys sort before `key`, each followed by a comma, and the
/// others, each preceded by a comma.
fn members_around(key: &str, object: Map<String, Value>) -> (String, String) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (name, value) in in_order(&object) {
        if name.as_str() < key {
            put_member(name, value, &mut before);
            before.push(b',');
        } else {
            after.push(b',');
            put_member(name, value, &mut after);
        }
    }
    let text = |bytes| String::from_utf8(bytes).unwrap_or_default();
    (text(before), text(after))
}

/// Returns the members sorted by key, as Go writes maps, whatever features of `serde_json` are
/// enabled.
fn in_order(object: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    members
}

fn put_member(name: &str, value: &Value, out: &mut Vec<u8>) {
    put_string(out, name.as_bytes());
    out.push(b':');
    put_value(value, out);
}

/// Appends compact JSON as Go writes it, with `<`, `>` and `&` escaped.
fn put_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            out.push(b'{');
            for (i, (name, value)) in in_order(object).into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                put_member(name, value, out);
            }
            out.push(b'}');
        }
        Value::Array(values) => {
            out.push(b'[');
            for (i, value) in values.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                put_value(value, out);
            }
            out.push(b']');
        }
        Value::String(text) => put_string(out, text.as_bytes()),
        Value::Number(number) => out.extend_from_slice(go_number(number).as_bytes()),
        Value::Null | Value::Bool(_) => out.extend_from_slice(value.to_string().as_bytes()),
    }
}

/// Returns a number as Go writes it after decoding: 64-bit integers unchanged; others as floats,
/// without a superfluous point, and with an exponent only if very large or small.
fn go_number(number: &Number) -> String {
    let Some(value) = number.as_f64().filter(|_| !number.is_i64()) else {
        return number.to_string();
    };
    match value.abs() {
        size if size != 0.0 && !(1e-6..1e21).contains(&size) => {
            let text = format!("{value:e}");
            match text.contains("e-") {
                true => text,
                false => text.replace('e', "e+"),
            }
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{item_object, list_item};

    #[test]
    fn a_number_is_kept_as_the_nearest_float() {
        for text in ["2.5e+44", "0.1", "1e-7", "123456789.12345679"] {
            let stored = format!("{{\"metadata\":{{}},\"spec\":{text}}}");
            let custom = custom_resource_from_json(stored.as_bytes()).expect("an object");
            let mut out = Vec::new();
            custom_resource_to_json(&custom, &mut out).expect("as made");
            let out = String::from_utf8(out).expect("UTF-8");
            assert!(
                out.ends_with(&format!("\"spec\":{text}}}")),
                "{out} of {text}"
            );
        }
    }

    #[test]
    fn the_version_is_inserted_in_both_forms() {
        let stored = br#"{"kind":"Widget","apiVersion":"bench.example.com/v1","spec":{"b":"<\u2028>","a":[{"d":0,"c":null}]},
            "metadata":{"name":"w","namespace":"a","labels":{"x":"y"},"resourceVersion":"stale","unknown":1}}"#;
        let custom = custom_resource_from_json(stored).expect("a widget");
        let item = list_item(&custom, "42").expect("a message");
        let custom = item_object(&item);
        let metadata = Metadata::read(custom).expect("well formed");
        assert_eq!(
            (metadata.name, metadata.resource_version),
            (&b"w"[..], &b"42"[..])
        );
        let mut out = Vec::new();
        custom_resource_to_json(custom, &mut out).expect("as made");
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            concat!(
                r#"{"apiVersion":"bench.example.com/v1","kind":"Widget","metadata":{"labels":{"x":"y"},"name":"w","#,
                r#""namespace":"a","resourceVersion":"42"},"spec":{"a":[{"c":null,"d":0}],"b":"\u003c\u2028\u003e"}}"#
            )
        );
    }

    #[test]
    fn other_texts_are_rejected() {
        for bad in [
            "",
            "[]",
            "{",
            r#"{"metadata":5}"#,
            r#"{"metadata":{"name":5}}"#,
        ] {
            assert!(custom_resource_from_json(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(custom_resource_to_json(&[0xff], &mut Vec::new()).is_err());
    }
    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (read, written) in [
            ("1", "1"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1.0", "1"),
            ("-0.0", "-0"),
            ("0.25", "0.25"),
            ("1e3", "1000"),
            ("18446744073709551615", "18446744073709552000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.5e300", "1.5e+300"),
            ("0.000001", "0.000001"),
            ("1e-7", "1e-7"),
        ] {
            let mut out = Vec::new();
            put_value(&serde_json::from_str(read).expect("a number"), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), written, "{read}");
        }
    }
}
