//! What the query of a write, or the body of a DELETE, asks for beside the object.

use http::Method;
use kube_api::envelope;
use kube_api::protobuf::{Fields, Malformed, Wire};
use kube_api::status::{Cause, Status};
use serde::Deserialize;

/// What to do with fields that the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    /// Leave them out.
    Ignore,
    /// Leave them out, and tell in a `Warning` header. The default.
    #[default]
    Warn,
    /// Refuse the object.
    Strict,
}

/// The query of POST, PUT, PATCH and DELETE. `fieldManager` and what is not named here is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WriteOptions {
    /// Do everything but the write (`dryRun=All`).
    pub(crate) dry_run: bool,
    /// `fieldValidation`.
    pub(crate) field_validation: FieldValidation,
}

impl WriteOptions {
    /// Reads the query of a URL.
    ///
    /// # Errors
    /// 422 for a value that is none of those that exist.
    pub(crate) fn parse(method: &Method, query: &str) -> Result<Self, Status> {
        let kind = match *method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "DeleteOptions",
        };
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match (&*name, &*value) {
                ("dryRun", "All") => options.dry_run = true,
                ("dryRun", other) => {
                    let value = format!("[{other:?}]");
                    return Err(unsupported(kind, "dryRun", &value, "\"All\""));
                }
                ("fieldValidation", "Ignore") => options.field_validation = FieldValidation::Ignore,
                ("fieldValidation", "" | "Warn") => {
                    options.field_validation = FieldValidation::Warn
                }
                ("fieldValidation", "Strict") => options.field_validation = FieldValidation::Strict,
                ("fieldValidation", other) => {
                    let known = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                    let value = format!("{other:?}");
                    return Err(unsupported(kind, "fieldValidation", &value, known));
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

fn unsupported(kind: &'static str, field: &'static str, value: &str, known: &str) -> Status {
    let cause = Cause {
        reason: "FieldValueNotSupported",
        message: format!("Unsupported value: {value}: supported values: {known}"),
        field,
    };
    Status::invalid(kind, "meta.k8s.io", "", vec![cause])
}

/// The body of a DELETE. Grace periods and propagation are passed over: nothing here runs pods, and nothing
/// follows owner references.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    /// What must hold for the object to be deleted.
    pub(crate) preconditions: Preconditions,
    dry_run: Vec<String>,
}

/// What must hold for an object to be deleted; `None` is no condition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    /// `metadata.uid`.
    pub(crate) uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads a body; an empty one has no conditions.
    ///
    /// # Errors
    /// 400 for a body that is no `DeleteOptions`, 415 for one in an unknown media type.
    pub(crate) fn parse(media_type: &str, body: &[u8]) -> Result<Self, Status> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        match media_type {
            "" | "application/json" => serde_json::from_slice(body)
                .map_err(|error| Status::bad_request(format!("DeleteOptions: {error}"))),
            envelope::MEDIA_TYPE => {
                let unreadable = |error: &dyn std::fmt::Display| {
                    Status::bad_request(format!("DeleteOptions: {error}"))
                };
                let raw = match envelope::open(body) {
                    Ok(raw) => raw,
                    // Without any option set, there is nothing in the envelope.
                    Err(envelope::EnvelopeError::Empty) => &[],
                    Err(error) => return Err(unreadable(&error)),
                };
                Self::from_protobuf(raw).map_err(|error| unreadable(&error))
            }
            _ => Err(Status::unsupported_media_type(&super::body::MEDIA_TYPES)),
        }
    }

    /// Whether `dryRun` is asked for.
    pub(crate) fn dry_run(&self) -> bool {
        self.dry_run.iter().any(|stage| stage == "All")
    }

    fn from_protobuf(raw: &[u8]) -> Result<Self, Malformed> {
        let text = |wire: Wire<'_>| {
            let bytes = wire.bytes().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let mut options = Self::default();
        for field in Fields::new(raw) {
            let field = field?;
            match field.number {
                2 => {
                    for condition in Fields::new(field.wire.bytes().unwrap_or_default()) {
                        let condition = condition?;
                        let value = Some(text(condition.wire));
                        match condition.number {
                            1 => options.preconditions.uid = value,
                            2 => options.preconditions.resource_version = value,
                            _ => {}
                        }
                    }
                }
                5 => options.dry_run.push(text(field.wire)),
                _ => {}
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use kube_api::protobuf::{put_bytes, put_int};

    use super::*;

    #[test]
    fn queries_of_real_clients_are_read() {
        let kubectl = WriteOptions::parse(
            &Method::POST,
            "fieldManager=kubectl-client-side-apply&fieldValidation=Strict&dryRun=All",
        );
        let expected = WriteOptions {
            dry_run: true,
            field_validation: FieldValidation::Strict,
        };
        assert_eq!(kubectl, Ok(expected));
        assert_eq!(
            WriteOptions::parse(&Method::POST, "&pretty=1"),
            Ok(WriteOptions::default())
        );
        for bad in ["dryRun=Some", "dryRun=", "fieldValidation=strict"] {
            assert_eq!(
                WriteOptions::parse(&Method::POST, bad).expect_err(bad).code,
                422
            );
        }
    }

    #[test]
    fn both_wires_say_the_same() {
        let json = br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","preconditions":{"uid":"u","resourceVersion":"7"},"dryRun":["All"]}"#;
        let mut conditions = Vec::new();
        put_bytes(&mut conditions, 1, b"u");
        put_bytes(&mut conditions, 2, b"7");
        let mut raw = Vec::new();
        put_int(&mut raw, 1, 30);
        put_bytes(&mut raw, 2, &conditions);
        put_bytes(&mut raw, 4, b"Background");
        put_bytes(&mut raw, 5, b"All");
        let protobuf = envelope::seal("v1", "DeleteOptions", &raw);
        let read = DeleteOptions::parse("application/json", json).expect("options");
        assert_eq!(
            DeleteOptions::parse(envelope::MEDIA_TYPE, &protobuf),
            Ok(read.clone())
        );
        assert!(read.dry_run());
        assert_eq!(read.preconditions.uid.as_deref(), Some("u"));
        assert_eq!(read.preconditions.resource_version.as_deref(), Some("7"));
        assert_eq!(DeleteOptions::parse("", b""), Ok(DeleteOptions::default()));
        assert_eq!(DeleteOptions::parse("", b"[").expect_err("cut").code, 400);
        assert_eq!(
            DeleteOptions::parse("text/html", b"x")
                .expect_err("html")
                .code,
            415
        );
    }
}
