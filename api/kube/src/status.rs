//! `Status`: the body of errors, with the code, reason and details that clients evaluate.

pub mod writes;

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::envelope;
use crate::schema::STATUS;
use crate::{from_json, to_json};

/// An error of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason; omitted when empty.
    pub reason: &'static str,
    /// Text for users.
    pub message: String,
    /// Details about the object and retries; boxed, because most errors have none.
    pub details: Option<Box<Details>>,
    /// Continue token for the rest of the list, without consistency (set by
    /// [`Status::expired_continue`] only).
    pub continue_token: String,
}

/// `StatusDetails`; empty fields are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group of the kind.
    pub group: &'static str,
    /// The kind; for an object that was not found, the resource.
    pub kind: Cow<'static, str>,
    /// The causes, one for each violated rule.
    pub causes: Vec<Cause>,
    /// Delay before a retry, seconds; also sent as `Retry-After` if it is not 0.
    pub retry_after_seconds: u32,
    /// `metadata.uid` of the object ([`Status::deleted`] only).
    pub uid: String,
}

/// One cause of a [`Status`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Text for users.
    pub message: String,
    /// The invalid field; omitted when empty.
    pub field: &'static str,
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: String::new(),
        }
    }

    fn with(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn retry_after(self, retry_after_seconds: u32) -> Self {
        self.with(Details {
            retry_after_seconds,
            ..Details::default()
        })
    }

    /// Returns the value of the `Retry-After` header, seconds; 0 if there is none.
    pub fn retry_after_seconds(&self) -> u32 {
        self.details
            .as_ref()
            .map_or(0, |details| details.retry_after_seconds)
    }

    /// Returns a 400: the request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns a 404: the resource (`pods`) of the group (empty for the core group) has no such
    /// object.
    pub fn not_found(resource: &'static str, group: &'static str, name: &str) -> Self {
        let dot = if group.is_empty() { "" } else { "." };
        let message = format!("{resource}{dot}{group} {name:?} not found");
        Self::new(404, "NotFound", message).with(Details {
            name: name.to_owned(),
            group,
            kind: resource.into(),
            ..Details::default()
        })
    }

    /// Returns a 404: nothing is served at this path. Its details are empty.
    pub fn path_not_found() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message).with(Details::default())
    }

    /// Returns a 405: the resource does not support this verb. Its details are empty.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with(Details::default())
    }

    /// Returns a 406: none of the media types in `Accept` can be served.
    pub fn not_acceptable(media_types: &[&str]) -> Self {
        let message = format!(
            "only the following media types are accepted: {}",
            media_types.join(", ")
        );
        Self::new(406, "NotAcceptable", message)
    }

    /// Returns a 410: the revision of the continue token is compacted. `token` continues after the
    /// same key at the latest revision.
    pub fn expired_continue(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. \
            Start over without it, or use the token in this response for the rest of the list as it is now: \
            what changed since the first page may then be missing or appear changed.";
        Self {
            continue_token: token,
            ..Self::new(410, "Expired", message)
        }
    }

    /// Returns a 410: the exact revision is compacted.
    pub fn expired_resource_version() -> Self {
        Self::new(
            410,
            "Expired",
            "The resourceVersion for the provided list is too old.",
        )
    }

    /// Returns a 410: a watch cannot start after `requested`. `floor` is the oldest revision after
    /// which a watch can start.
    pub fn expired_watch(requested: i64, floor: i64) -> Self {
        let message = format!("too old resource version: {requested} ({floor})");
        Self::new(410, "Expired", message)
    }

    /// Returns a 410: storage has compacted the revision after which a watch should start.
    pub fn expired_storage_watch() -> Self {
        let message = "The resourceVersion for the provided watch is too old.";
        Self::new(410, "Expired", message)
    }

    /// Returns a 422: the options cannot be combined.
    pub fn invalid_list_options(causes: Vec<Cause>) -> Self {
        Self::invalid("ListOptions", "meta.k8s.io", "", causes)
    }

    /// Returns a 429: too many requests; retry after this number of seconds.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(retry_after_seconds)
    }

    /// Returns a 500: storage timed out or is unreachable.
    pub fn server_timeout(message: impl Into<String>) -> Self {
        Self::new(500, "ServerTimeout", message).retry_after(2)
    }

    /// Returns a 500: any other failure, without a reason.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Converts a list's 400 for an invalid revision into the 500 that a GET and a watch return.
    pub fn into_revision_error(self) -> Self {
        let why = self.message.strip_prefix("invalid resource version: ");
        Self::internal(why.unwrap_or(&self.message))
    }

    /// Returns a 500: an internal error, with the reason `InternalError`.
    pub fn internal_error(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(500, "InternalError", message)
    }

    /// Returns a 504: the store has not reached the requested revision. `retry_after_seconds` is 1
    /// if this server has waited for it, and 0 if storage rejected it.
    pub fn too_large_resource_version(
        requested: u64,
        current: u64,
        retry_after_seconds: u32,
    ) -> Self {
        let message =
            format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: "",
        };
        Self::new(504, "Timeout", message).with(Details {
            causes: vec![cause],
            retry_after_seconds,
            ..Details::default()
        })
    }

    /// Returns a 504: the request's own deadline has passed.
    pub fn timeout() -> Self {
        Self::new(
            504,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
        )
    }

    fn value(&self) -> Value {
        // The body of a success has no code.
        let (outcome, code) = match self.code {
            200 => ("Success", 0),
            code => ("Failure", code),
        };
        let mut status = json!({
            "metadata": {"continue": self.continue_token},
            "status": outcome,
            "message": self.message,
            "reason": self.reason,
            "code": code,
        });
        if let Some(details) = &self.details {
            let cause = |cause: &Cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field});
            status["details"] = json!({
                "name": details.name,
                "group": details.group,
                "kind": details.kind,
                "causes": details.causes.iter().map(cause).collect::<Vec<_>>(),
                "retryAfterSeconds": details.retry_after_seconds,
                "uid": details.uid,
            });
        }
        status
    }

    fn raw(&self) -> Vec<u8> {
        let mut raw = Vec::new();
        let value = self.value();
        from_json(
            &STATUS,
            value.as_object().expect("built as an object"),
            &mut raw,
        )
        .expect("built to fit the schema");
        raw
    }

    /// Returns the body in JSON, with a final newline as an apiserver sends it.
    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        to_json(
            &STATUS,
            &self.raw(),
            r#""kind":"Status","apiVersion":"v1""#,
            &mut out,
        )
        .expect("written by from_json");
        out.push(b'\n');
        out
    }

    /// Returns the body in protobuf, in its envelope.
    pub fn protobuf(&self) -> Vec<u8> {
        envelope::seal("v1", "Status", &self.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(status: &Status) -> String {
        String::from_utf8(status.json()).expect("UTF-8")
    }

    #[test]
    fn bodies_have_the_form_that_clients_parse() {
        assert_eq!(
            text(&Status::bad_request("no")),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"no\",\"reason\":\"BadRequest\",\"code\":400}\n"
        );
        assert_eq!(
            text(&Status::not_found("pods", "", "x")),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"pods \\\"x\\\" not found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"x\",\"kind\":\"pods\"},\"code\":404}\n"
        );
        assert_eq!(
            text(&Status::too_large_resource_version(1107, 107, 1)),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: Too large resource version: 1107, current: 107\",\"reason\":\"Timeout\",\"details\":{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}],\"retryAfterSeconds\":1},\"code\":504}\n"
        );
        assert!(
            text(&Status::expired_continue("next".to_owned()))
                .contains("\"metadata\":{\"continue\":\"next\"}")
        );
        assert!(
            !text(&Status::internal("boom")).contains("reason"),
            "an unknown error has no reason"
        );
        assert!(!text(&Status::too_large_resource_version(2, 1, 0)).contains("retryAfterSeconds"));
    }

    #[test]
    fn protobuf_says_the_same() {
        let status = Status::too_many_requests("storage is initializing", 7);
        let body = status.protobuf();
        assert_eq!(envelope::type_meta(&body), Ok((&b"v1"[..], &b"Status"[..])));
        let mut json = Vec::new();
        let head = r#""kind":"Status","apiVersion":"v1""#;
        to_json(
            &STATUS,
            envelope::open(&body).expect("sealed"),
            head,
            &mut json,
        )
        .expect("a status");
        json.push(b'\n');
        assert_eq!(json, status.json());
    }
}
