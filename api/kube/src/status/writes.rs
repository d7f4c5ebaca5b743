//! Statuses of writes. Texts and reasons are an apiserver's, because clients match them.

use std::borrow::Cow;

use super::{Cause, Details, Status};

/// The object that a `Status` concerns, as its details name it.
#[derive(Debug, Clone, Copy)]
pub struct ObjectName<'a> {
    /// Resource name, such as `pods`.
    pub resource: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Name of the object; empty if it has none yet.
    pub name: &'a str,
}

impl ObjectName<'_> {
    /// Returns the name in the form `pods "x"` or `leases.coordination.k8s.io "x"`.
    fn text(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{dot}{} {:?}", self.resource, self.group, self.name)
    }

    fn details(&self) -> Details {
        Details {
            name: self.name.to_owned(),
            group: self.group,
            kind: self.resource.into(),
            ..Details::default()
        }
    }
}

impl Status {
    /// Returns a 200: the object was deleted.
    pub fn deleted(object: ObjectName<'_>, uid: &str) -> Self {
        Self::new(200, "", "").with(Details {
            uid: uid.to_owned(),
            ..object.details()
        })
    }

    /// Returns a 403: this operation is not allowed on the object.
    pub fn forbidden(object: ObjectName<'_>, why: &str) -> Self {
        let message = format!("{} is forbidden: {why}", object.text());
        Self::new(403, "Forbidden", message).with(object.details())
    }

    /// Returns a 409: an object of that name already exists.
    pub fn already_exists(object: ObjectName<'_>) -> Self {
        let message = format!("{} already exists", object.text());
        Self::new(409, "AlreadyExists", message).with(object.details())
    }

    /// Returns a 409: all names that were generated for the object already exist. A retry may find
    /// a free one.
    pub fn generate_name_conflict(object: ObjectName<'_>) -> Self {
        let taken = Self::already_exists(object);
        let why = "the server was not able to generate a unique name for the object";
        Self {
            message: format!("{}, {why}", taken.message),
            ..taken
        }
        .with(Details {
            retry_after_seconds: 1,
            ..object.details()
        })
    }

    /// Adds to the message that the object is being deleted.
    pub fn while_being_deleted(self) -> Self {
        Self {
            message: format!("object is being deleted: {}", self.message),
            ..self
        }
    }

    /// Returns a 409: the object is not in the state that the request requires.
    pub fn conflict(object: ObjectName<'_>, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {}: {why}", object.text());
        Self::new(409, "Conflict", message).with(object.details())
    }

    /// Returns a 409: the object does not have the `resourceVersion` of the request.
    pub fn modified(object: ObjectName<'_>) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(object, why)
    }

    /// Returns a 413: the body exceeds a limit of size or of work. `why` names the limit.
    pub fn request_too_large(why: impl std::fmt::Display) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// Returns a 415: the body has a media type other than these.
    pub fn unsupported_media_type(media_types: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            media_types.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Returns a 415: the resource does not support this type of patch. The message does not list
    /// the supported ones.
    pub fn unsupported_patch() -> Self {
        let message = "415: Unsupported Media Type";
        Self::new(415, "UnsupportedMediaType", message).with(Details::default())
    }

    /// Returns a 422: the object violates rules of its kind, with one cause for each.
    pub fn invalid(
        kind: impl Into<Cow<'static, str>>,
        group: &'static str,
        name: &str,
        causes: Vec<Cause>,
    ) -> Self {
        let kind = kind.into();
        let texts: Vec<_> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let texts = match &texts[..] {
            [text] => text.clone(),
            _ => format!("[{}]", texts.join(", ")),
        };
        let dot = if group.is_empty() { "" } else { "." };
        let message = format!("{kind}{dot}{group} {name:?} is invalid: {texts}");
        Self::new(422, "Invalid", message).with(Details {
            name: name.to_owned(),
            group,
            kind,
            causes,
            ..Details::default()
        })
    }

    /// Returns a 422: a JSON patch cannot be applied to the object. The message gives no reason.
    pub fn patch_rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with(Details::default())
    }

    /// Converts the 400 for an invalid object into the 422 of the patch that produced it. Returns
    /// other errors unchanged.
    pub fn into_patch_error(self) -> Self {
        if self.code != 400 || self.message.starts_with("the name") {
            return self;
        }
        let cause = Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {}", self.message),
            field: "patch",
        };
        Self::invalid("", "", "", vec![cause])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_follows_the_resource() {
        let pod = ObjectName {
            resource: "pods",
            group: "",
            name: "x",
        };
        let lease = ObjectName {
            resource: "leases",
            group: "coordination.k8s.io",
            name: "x",
        };
        assert_eq!(
            Status::already_exists(pod).message,
            "pods \"x\" already exists"
        );
        assert_eq!(
            Status::modified(lease).message,
            "Operation cannot be fulfilled on leases.coordination.k8s.io \"x\": the object has been modified; \
             please apply your changes to the latest version and try again"
        );
    }

    #[test]
    fn a_deletion_returns_the_uid() {
        let about = ObjectName {
            resource: "pods",
            group: "",
            name: "x",
        };
        assert_eq!(
            String::from_utf8_lossy(&Status::deleted(about, "u").json()),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\",\"details\":{\"name\":\"x\",\"kind\":\"pods\",\"uid\":\"u\"}}\n"
        );
    }

    #[test]
    fn each_violated_rule_is_a_cause() {
        let cause = |field| Cause {
            reason: "FieldValueRequired",
            message: "Required value".to_owned(),
            field,
        };
        let one = Status::invalid("Pod", "", "x", vec![cause("spec.containers")]);
        assert_eq!(
            one.message,
            "Pod \"x\" is invalid: spec.containers: Required value"
        );
        let two = Status::invalid(
            "Lease",
            "coordination.k8s.io",
            "",
            vec![cause("a"), cause("b")],
        );
        assert_eq!(
            two.message,
            "Lease.coordination.k8s.io \"\" is invalid: [a: Required value, b: Required value]"
        );
        assert_eq!(two.details.map_or(0, |details| details.causes.len()), 2);
    }
}
