//! Statuses that only writes end with; texts and reasons are an apiserver's, because clients match them.

use super::{Cause, Details, Status};

/// The kind of object that a Status is about, as its details name it.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Resource name, as in `pods`.
    pub resource: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Name of the object; empty for one that has none yet.
    pub name: &'a str,
}

impl About<'_> {
    /// `pods "x"`, `leases.coordination.k8s.io "x"`.
    fn text(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{dot}{} {:?}", self.resource, self.group, self.name)
    }

    fn details(&self) -> Details {
        Details {
            name: self.name.to_owned(),
            group: self.group,
            kind: self.resource,
            ..Details::default()
        }
    }
}

impl Status {
    /// 200: the object is gone.
    pub fn deleted(about: About<'_>, uid: &str) -> Self {
        Self::new(200, "", "").with(Details {
            uid: uid.to_owned(),
            ..about.details()
        })
    }

    /// 403: nobody may do that to this object.
    pub fn forbidden(about: About<'_>, why: &str) -> Self {
        let message = format!("{} is forbidden: {why}", about.text());
        Self::new(403, "Forbidden", message).with(about.details())
    }

    /// 409: an object of that name is there already.
    pub fn already_exists(about: About<'_>) -> Self {
        let message = format!("{} already exists", about.text());
        Self::new(409, "AlreadyExists", message).with(about.details())
    }

    /// 409: each name that was made up for the object is taken. Another try may find a free one.
    pub fn no_name_left(about: About<'_>) -> Self {
        let taken = Self::already_exists(about);
        let why = "the server was not able to generate a unique name for the object";
        Self {
            message: format!("{}, {why}", taken.message),
            ..taken
        }
        .with(Details {
            retry_after_seconds: 1,
            ..about.details()
        })
    }

    /// The same of an object whose deletion has begun.
    pub fn of_a_dying_object(self) -> Self {
        Self {
            message: format!("object is being deleted: {}", self.message),
            ..self
        }
    }

    /// 409: the object is not in the state that the request names.
    pub fn conflict(about: About<'_>, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {}: {why}", about.text());
        Self::new(409, "Conflict", message).with(about.details())
    }

    /// 409: the object is not at the `resourceVersion` that the request names.
    pub fn modified(about: About<'_>) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(about, why)
    }

    /// 413: the body is larger, or asks for more, than a request may; `why` names the limit.
    pub fn request_too_large(why: impl std::fmt::Display) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 415: the body is in none of these media types.
    pub fn unsupported_media_type(media_types: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            media_types.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 415: the body is no patch that the resource knows. Which there are is not told.
    pub fn unsupported_patch() -> Self {
        let message = "415: Unsupported Media Type";
        Self::new(415, "UnsupportedMediaType", message).with(Details::default())
    }

    /// 422: the object breaks rules of its kind, one cause for each.
    pub fn invalid(
        kind: &'static str,
        group: &'static str,
        name: &str,
        causes: Vec<Cause>,
    ) -> Self {
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

    /// 422: a JSON patch that cannot be applied to the object. Why is not told.
    pub fn patch_rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with(Details::default())
    }

    /// 422 for 400: what a patch made is no object of the kind, and it is the patch that is wrong. Others stay.
    pub fn of_a_patch(self) -> Self {
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
    fn a_group_stands_behind_the_resource() {
        let pod = About {
            resource: "pods",
            group: "",
            name: "x",
        };
        let lease = About {
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
    fn a_deletion_answers_whose_it_was() {
        let about = About {
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
    fn each_broken_rule_is_a_cause() {
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
