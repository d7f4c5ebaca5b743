//! Transcodes JSON objects to the protobuf that an apiserver would store. It is the inverse of
//! [`crate::to_json()`] and uses the same schema. As in Kubernetes, non-pointer scalars are always
//! written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::protobuf::{put_bytes, put_int};
use crate::quantity::{canonical, canonical_resource};
use crate::schema::{Field, Kind, Message, Rule};
use crate::time;

/// The error for JSON that does not match the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FromJsonError {
    /// A value does not have the type of its field.
    #[error("{path}: expected {expected}")]
    Type {
        /// The path of the field, such as `spec.containers[0].image`.
        path: String,
        /// The expected type.
        expected: &'static str,
    },
    /// The schema does not have the field.
    #[error("{path}: unknown field")]
    Unknown {
        /// The path of the field.
        path: String,
    },
}

/// Appends the protobuf of an object of type `message`. Ignores top-level `kind` and `apiVersion`,
/// which belong to the envelope.
///
/// # Errors
/// [`FromJsonError`] when a value does not have the type of its field, or the schema does not have
/// a field.
pub fn from_json(
    message: &'static Message,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), FromJsonError> {
    let mut seen = 0;
    let envelope = ["kind", "apiVersion"]
        .iter()
        .filter(|key| object.contains_key(**key))
        .count();
    fields(message, object, out, &mut seen).map_err(Path::finish)?;
    if seen + envelope == object.len() {
        return Ok(());
    }
    match unknown(message, object).find(|key| !["kind", "apiVersion"].contains(key)) {
        Some(key) => Err(FromJsonError::Unknown {
            path: key.to_owned(),
        }),
        None => Ok(()),
    }
}

/// An error with the path of its field, to which each enclosing object prepends its own key.
struct Path {
    path: String,
    expected: Option<&'static str>,
}

impl Path {
    fn expected(expected: &'static str) -> Self {
        Self {
            path: String::new(),
            expected: Some(expected),
        }
    }

    fn under(mut self, step: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path = format!("{step}{dot}{}", self.path);
        self
    }

    fn finish(self) -> FromJsonError {
        match self.expected {
            Some(expected) => FromJsonError::Type {
                path: self.path,
                expected,
            },
            None => FromJsonError::Unknown { path: self.path },
        }
    }
}

fn fields(
    message: &'static Message,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
    seen: &mut usize,
) -> Result<(), Path> {
    for field in message.by_number() {
        if let (Rule::Inline, Kind::Object(inner)) = (field.rule, field.kind) {
            let mut bytes = Vec::new();
            fields(inner, object, &mut bytes, seen)?;
            put_bytes(out, u32::from(field.number), &bytes);
            continue;
        }
        let value = object.get(field.name());
        *seen += usize::from(value.is_some());
        let value = value.filter(|value| !value.is_null());
        self::field(field, value, out).map_err(|path| path.under(field.name()))?;
    }
    Ok(())
}

/// Returns the keys of `object` that neither `message` nor its inline messages have.
fn unknown<'o>(
    message: &'static Message,
    object: &'o Map<String, Value>,
) -> impl Iterator<Item = &'o str> {
    fn knows(message: &'static Message, key: &str) -> bool {
        message
            .fields()
            .iter()
            .any(|field| match (field.rule, field.kind) {
                (Rule::Inline, Kind::Object(inner)) => knows(inner, key),
                _ => field.name() == key,
            })
    }
    object
        .keys()
        .map(String::as_str)
        .filter(move |key| !knows(message, key))
}

fn field(field: &'static Field, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Path> {
    let number = u32::from(field.number);
    match (field.rule, field.kind, value) {
        (Rule::List | Rule::ListOrNull, _, None) => Ok(()),
        (Rule::List | Rule::ListOrNull, kind, Some(value)) => {
            let items = value.as_array().ok_or_else(|| Path::expected("a list"))?;
            items.iter().enumerate().try_for_each(|(i, item)| {
                put_value(number, kind, Some(item), out)
                    .map_err(|path| path.under(&format!("[{i}]")))
            })
        }
        (_, Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, None) => Ok(()),
        (_, kind @ (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity), Some(value)) => {
            let map = value
                .as_object()
                .ok_or_else(|| Path::expected("an object"))?;
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_bytes());
            entries.into_iter().try_for_each(|(key, value)| {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                match kind {
                    Kind::MapQuantity => quantity(value, canonical_resource).map(|text| {
                        let mut inner = Vec::with_capacity(text.len() + 2);
                        put_bytes(&mut inner, 1, text.as_bytes());
                        put_bytes(&mut entry, 2, &inner);
                    }),
                    Kind::MapBytes => value
                        .as_str()
                        .and_then(|text| STANDARD.decode(text).ok())
                        .map(|bytes| put_bytes(&mut entry, 2, &bytes))
                        .ok_or_else(|| Path::expected("Base64 text")),
                    _ => put_value(2, Kind::Str, Some(value), &mut entry),
                }
                .map_err(|path| path.under(key))?;
                put_bytes(out, number, &entry);
                Ok(())
            })
        }
        (Rule::Optional | Rule::OptionalOrNull, _, None) => Ok(()),
        (_, kind, value) => put_value(number, kind, value, out),
    }
}

/// Writes one value; `None` writes the zero value of a field that is always written.
fn put_value(
    number: u32,
    kind: Kind,
    value: Option<&Value>,
    out: &mut Vec<u8>,
) -> Result<(), Path> {
    let mut inner = Vec::new();
    match kind {
        Kind::Str => {
            let text = value
                .map_or(Some(""), Value::as_str)
                .ok_or_else(|| Path::expected("text"))?;
            inner.extend_from_slice(text.as_bytes());
        }
        Kind::Bool => {
            let value = value
                .map_or(Some(false), Value::as_bool)
                .ok_or_else(|| Path::expected("true or false"))?;
            put_int(out, number, i64::from(value));
            return Ok(());
        }
        Kind::Int => {
            let value = value
                .map_or(Some(0), Value::as_i64)
                .ok_or_else(|| Path::expected("an integer"))?;
            put_int(out, number, value);
            return Ok(());
        }
        Kind::Int32 => {
            put_int(out, number, value.map_or(Ok(0), int32)?);
            return Ok(());
        }
        Kind::Object(message) => {
            let empty = Map::new();
            let object = value
                .map_or(Some(&empty), Value::as_object)
                .ok_or_else(|| Path::expected("an object"))?;
            let mut seen = 0;
            fields(message, object, &mut inner, &mut seen)?;
            if seen != object.len() {
                return Err(first_unknown(message, object));
            }
        }
        Kind::Time | Kind::MicroTime => {
            if let Some(value) = value {
                let moment = value.as_str().and_then(time::parse_rfc3339);
                let (seconds, nanos) =
                    moment.ok_or_else(|| Path::expected("a time as 2026-01-31T09:05:00Z"))?;
                let nanos = match kind {
                    Kind::MicroTime => nanos / 1_000 * 1_000,
                    _ => 0,
                };
                put_int(&mut inner, 1, seconds);
                put_int(&mut inner, 2, nanos);
            }
        }
        Kind::Quantity => {
            let text = value.map_or(Ok("0".to_owned()), |value| quantity(value, canonical))?;
            put_bytes(&mut inner, 1, text.as_bytes());
        }
        Kind::IntOrString => {
            let (int, text) = match value {
                None => (0, None),
                Some(Value::String(text)) => (0, Some(text.as_str())),
                Some(value) => (int32(value)?, None),
            };
            put_int(&mut inner, 1, i64::from(text.is_some()));
            put_int(&mut inner, 2, int);
            put_bytes(&mut inner, 3, text.unwrap_or_default().as_bytes());
        }
        Kind::FieldsV1 => {
            let text = value.map(Value::to_string).unwrap_or_default();
            put_bytes(&mut inner, 1, text.as_bytes());
        }
        Kind::MapStr | Kind::MapBytes | Kind::MapQuantity => {
            return Err(Path::expected("no list of maps"));
        }
    }
    put_bytes(out, number, &inner);
    Ok(())
}

/// Returns the path of the first field that the message does not have.
#[cold]
fn first_unknown(message: &'static Message, object: &Map<String, Value>) -> Path {
    let path = unknown(message, object).next().unwrap_or_default();
    Path {
        path: path.to_owned(),
        expected: None,
    }
}

/// Returns the stored form of a quantity: the result of `canonical` for its text, or for a number's
/// text.
fn quantity(value: &Value, canonical: fn(&str) -> Option<String>) -> Result<String, Path> {
    let stored = match value {
        Value::String(text) => canonical(text),
        Value::Number(number) => canonical(&number.to_string()),
        Value::Null => Some("0".to_owned()),
        _ => None,
    };
    stored.ok_or_else(|| Path::expected("a quantity as 500m or 32Gi"))
}

/// Returns an integer, if it fits into 32 bits.
fn int32(value: &Value) -> Result<i64, Path> {
    let value = value.as_i64().and_then(|value| i32::try_from(value).ok());
    value
        .map(i64::from)
        .ok_or_else(|| Path::expected("an integer of 32 bits"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::POD;

    /// Most objects have kind and apiVersion, which sort before most unknown fields.
    #[test]
    fn kind_and_version_hide_no_unknown_field() {
        for name in ["extra", "aaa", "zzz"] {
            let mut object = Map::new();
            object.insert("kind".to_owned(), "Pod".into());
            object.insert("apiVersion".to_owned(), "v1".into());
            assert_eq!(from_json(&POD, &object, &mut Vec::new()), Ok(()));
            object.insert(name.to_owned(), json!(1));
            let path = name.to_owned();
            assert_eq!(
                from_json(&POD, &object, &mut Vec::new()),
                Err(FromJsonError::Unknown { path })
            );
        }
    }
    fn read(pod: Value) -> Result<Value, FromJsonError> {
        let mut raw = Vec::new();
        from_json(&POD, pod.as_object().expect("an object"), &mut raw)?;
        let mut json = Vec::new();
        crate::to_json(&POD, &raw, "", &mut json).expect("well formed");
        Ok(serde_json::from_slice(&json).expect("JSON"))
    }

    fn container(fields: Value) -> Value {
        json!({"spec": {"containers": [fields]}})
    }

    /// A single value that clients cannot decode makes every list that includes it unreadable.
    #[test]
    fn quantities_are_read_and_written_in_one_way() {
        let requests = |cpu: Value| container(json!({"resources": {"requests": {"cpu": cpu}}}));
        for (cpu, stored) in [
            (json!("0.5"), "500m"),
            (json!(0.5), "500m"),
            (json!(2), "2"),
        ] {
            let pod = read(requests(cpu)).expect("a pod");
            assert_eq!(
                pod.pointer("/spec/containers/0/resources/requests/cpu"),
                Some(&json!(stored))
            );
        }
        for cpu in [json!("abc"), json!(""), json!(true)] {
            let refused = read(requests(cpu.clone())).expect_err("no quantity");
            let path = "spec.containers[0].resources.requests.cpu";
            assert!(refused.to_string().starts_with(path), "{cpu}: {refused}");
        }
    }

    #[test]
    fn integers_have_room_in_their_fields() {
        let port = |port: i64| read(container(json!({"ports": [{"containerPort": port}]})));
        assert!(port(i64::from(i32::MAX)).is_ok());
        for outside in [5_000_000_000, i64::from(i32::MIN) - 1] {
            assert!(port(outside).is_err(), "{outside}");
        }
        let probe = |port: i64| {
            read(container(
                json!({"livenessProbe": {"httpGet": {"port": port}}}),
            ))
        };
        assert!(probe(8080).is_ok() && probe(5_000_000_000).is_err());
        let seconds = json!({"spec": {"activeDeadlineSeconds": 5_000_000_000_i64}});
        assert!(read(seconds).is_ok(), "64 bits have room for it");
    }
}
