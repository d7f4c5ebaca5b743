//! The options of a DELETE, from the body if there is one, otherwise from the query.

use kube_api::envelope::{self, EnvelopeError};
use kube_api::list_options::{boolean, integer};
use kube_api::protobuf::{Fields, Malformed, WireValue};
use kube_api::status::{Cause, Status};
use serde::Deserialize;

use super::body::{MEDIA_TYPES, RequestBody};
use super::options::unsupported_stages;

/// The fields of `DeleteOptions`. Grace periods and propagation are validated and otherwise
/// ignored: there are no kubelets and no garbage collector.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    kind: Option<String>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
    grace_period_seconds: Option<i64>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
}

/// The preconditions of a deletion; `None` means no condition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    /// `metadata.uid`.
    pub(crate) uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Parses the body, or the query if there is no body.
    ///
    /// # Errors
    /// 400 for a body that is not `DeleteOptions` or a number that cannot be parsed, 415 for an
    /// unknown media type, 422 for values that are unknown or mutually exclusive.
    pub(crate) fn read(query: &str, request_body: &RequestBody) -> Result<Self, Status> {
        let options = match request_body.bytes.is_empty() {
            true => Self::of_query(query)?,
            false => Self::of_body(request_body)?,
        };
        options.validate()?;
        Ok(options)
    }

    /// Returns whether this is a dry run, which does everything except the write.
    pub(crate) fn dry_run(&self) -> bool {
        self.dry_run
            .as_ref()
            .is_some_and(|stages| !stages.is_empty())
    }

    /// Returns the preconditions of the deletion.
    pub(crate) fn preconditions(&self) -> Preconditions {
        self.preconditions.clone().unwrap_or_default()
    }

    /// Returns whether the deprecated `orphanDependents` requests that dependents are deleted
    /// first. The status code of the response then says whether the object still waits for its
    /// finalizers.
    pub(crate) fn cascades(&self) -> bool {
        self.orphan_dependents == Some(false)
    }

    fn of_query(query: &str) -> Result<Self, Status> {
        let (mut options, mut conditions) = (Self::default(), Preconditions::default());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            // The first of repeated parameters counts. An empty value is no condition.
            let condition = || (!value.is_empty()).then(|| value.to_string());
            match &*name {
                "dryRun" => options.dry_run.get_or_insert_default().push(value.into()),
                "gracePeriodSeconds" if options.grace_period_seconds.is_none() => {
                    options.grace_period_seconds = Some(integer(&value)?);
                }
                "orphanDependents" if options.orphan_dependents.is_none() => {
                    options.orphan_dependents = Some(boolean(&value));
                }
                "propagationPolicy" if options.propagation_policy.is_none() => {
                    options.propagation_policy = Some(value.into());
                }
                "uid" if conditions.uid.is_none() => conditions.uid = condition(),
                "resourceVersion" if conditions.resource_version.is_none() => {
                    conditions.resource_version = condition();
                }
                _ => {}
            }
        }
        options.preconditions = Some(conditions);
        Ok(options)
    }

    fn of_body(request_body: &RequestBody) -> Result<Self, Status> {
        let unreadable =
            |error: &dyn std::fmt::Display| Status::bad_request(format!("DeleteOptions: {error}"));
        let options: Self = match &*request_body.media_type {
            "" | "application/json" => serde_json::from_slice(&request_body.bytes)
                .map(Option::unwrap_or_default)
                .map_err(|error| unreadable(&error))?,
            envelope::MEDIA_TYPE => {
                let raw = match envelope::open(&request_body.bytes) {
                    Ok(raw) => raw,
                    // If no option is set, the envelope is empty.
                    Err(EnvelopeError::Empty) => &[],
                    Err(error) => return Err(unreadable(&error)),
                };
                Self::of_protobuf(raw).map_err(|error| unreadable(&error))?
            }
            _ => return Err(Status::unsupported_media_type(&MEDIA_TYPES)),
        };
        match options.kind.as_deref() {
            None | Some("" | "DeleteOptions") => Ok(options),
            Some(other) => Err(unreadable(&format_args!("kind is {other:?}"))),
        }
    }

    fn of_protobuf(raw: &[u8]) -> Result<Self, Malformed> {
        let text = |wire: WireValue<'_>| {
            let bytes = wire.bytes().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let int = |wire: WireValue<'_>| match wire {
            WireValue::Varint(value) => Some(value as i64),
            _ => None,
        };
        let mut options = Self::default();
        for field in Fields::new(raw) {
            let field = field?;
            match field.number {
                1 => options.grace_period_seconds = int(field.wire),
                2 => {
                    let conditions = options.preconditions.get_or_insert_default();
                    for condition in Fields::new(field.wire.bytes().unwrap_or_default()) {
                        let condition = condition?;
                        let value = Some(text(condition.wire));
                        match condition.number {
                            1 => conditions.uid = value,
                            2 => conditions.resource_version = value,
                            _ => {}
                        }
                    }
                }
                3 => options.orphan_dependents = int(field.wire).map(|flag| flag != 0),
                4 => options.propagation_policy = Some(text(field.wire)),
                5 => options
                    .dry_run
                    .get_or_insert_default()
                    .push(text(field.wire)),
                _ => {}
            }
        }
        Ok(options)
    }

    /// Validates the options as apiserver's `ValidateDeleteOptions` does.
    fn validate(&self) -> Result<(), Status> {
        const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];
        let field = "propagationPolicy";
        let mut causes = Vec::new();
        if let Some(policy) = &self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(Cause {
                    reason: "FieldValueInvalid",
                    message: format!("Invalid value: {policy:?}: {why}"),
                    field,
                });
            }
            if !POLICIES.contains(&policy.as_str()) {
                let known = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
                causes.push(Cause {
                    reason: "FieldValueNotSupported",
                    message: format!("Unsupported value: {policy:?}: supported values: {known}"),
                    field,
                });
            }
        }
        causes.extend(unsupported_stages(
            self.dry_run.as_deref().unwrap_or_default(),
        ));
        match causes.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid("DeleteOptions", "meta.k8s.io", "", causes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_api::protobuf::{put_bytes, put_int};

    use super::*;

    fn request_body(media_type: &str, body: &[u8]) -> RequestBody {
        RequestBody {
            media_type: media_type.to_owned(),
            bytes: bytes::Bytes::copy_from_slice(body),
            ..RequestBody::default()
        }
    }

    fn read(query: &str, body: &str) -> Result<DeleteOptions, Status> {
        DeleteOptions::read(query, &request_body("application/json", body.as_bytes()))
    }

    #[test]
    fn both_wires_and_the_query_say_the_same() {
        let json = br#"{"apiVersion":"v1","gracePeriodSeconds":30,"propagationPolicy":"Background","preconditions":{"uid":"u","resourceVersion":"7"},"dryRun":["All"]}"#;
        let mut conditions = Vec::new();
        put_bytes(&mut conditions, 1, b"u");
        put_bytes(&mut conditions, 2, b"7");
        let mut raw = Vec::new();
        put_int(&mut raw, 1, 30);
        put_bytes(&mut raw, 2, &conditions);
        put_bytes(&mut raw, 4, b"Background");
        put_bytes(&mut raw, 5, b"All");
        let protobuf = envelope::seal("v1", "DeleteOptions", &raw);
        let read = DeleteOptions::read("", &request_body("", json)).expect("options");
        assert_eq!(
            DeleteOptions::read("", &request_body(envelope::MEDIA_TYPE, &protobuf)),
            Ok(read.clone())
        );
        let query = "uid=u&resourceVersion=7&dryRun=All&propagationPolicy=Background&gracePeriodSeconds=30&uid=v";
        assert_eq!(
            DeleteOptions::read(query, &request_body("", b"")),
            Ok(read.clone())
        );
        assert!(read.dry_run());
        assert_eq!(read.preconditions().uid.as_deref(), Some("u"));
        assert_eq!(read.preconditions().resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn a_body_counts_alone_and_may_leave_out_everything() {
        for body in [
            "{}",
            "null",
            r#"{"kind":"DeleteOptions","preconditions":null,"dryRun":null,"propagationPolicy":null}"#,
        ] {
            let options = read("dryRun=All&uid=other&propagationPolicy=Bogus", body).expect(body);
            assert!(!options.dry_run(), "{body}");
            assert_eq!(options.preconditions(), Preconditions::default(), "{body}");
        }
        let unset = read("uid=&resourceVersion=", "").expect("no condition");
        assert_eq!(unset.preconditions(), Preconditions::default());
    }

    #[test]
    fn what_an_apiserver_refuses_is_refused() {
        for (query, body, code) in [
            ("", r#"{"dryRun":["Some"]}"#, 422),
            ("", r#"{"dryRun":["All","Some"]}"#, 422),
            ("", r#"{"propagationPolicy":"Bogus"}"#, 422),
            (
                "",
                r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
                422,
            ),
            ("", r#"{"gracePeriodSeconds":"x"}"#, 400),
            ("", r#"{"kind":"Pod"}"#, 400),
            ("", "[", 400),
            ("dryRun=Some", "", 422),
            ("dryRun=", "", 422),
            ("propagationPolicy=", "", 422),
            ("propagationPolicy=Orphan&orphanDependents=0", "", 422),
            ("gracePeriodSeconds=soon", "", 400),
        ] {
            let refused = read(query, body).expect_err(body);
            assert_eq!(refused.code, code, "{query} {body}");
        }
        let both = read("", r#"{"propagationPolicy":"X","dryRun":["Y"]}"#).expect_err("two");
        assert_eq!(
            both.message,
            "DeleteOptions.meta.k8s.io \"\" is invalid: [propagationPolicy: Unsupported value: \"X\": supported values: \
             \"Foreground\", \"Background\", \"Orphan\", \"nil\", dryRun: Unsupported value: [\"Y\"]: supported values: \"All\"]"
        );
        let html = DeleteOptions::read("", &request_body("text/html", b"x"));
        assert_eq!(html.expect_err("html").code, 415);
    }
}
