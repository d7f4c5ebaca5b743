//! The differences between kinds in writes, like the strategies of kube-apiserver's registry.

use kube_api::media_type::{JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};
use kube_api::status::writes::ObjectName;

use super::Resource;
use super::name_rule::NameRule;

impl Resource {
    /// Returns the supported media types of patches. Strategic merge patches need the kind's
    /// schema. Server-side apply is not supported.
    pub(crate) fn patch_media_types(&self) -> &'static [&'static str] {
        const ALL: [&str; 3] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH];
        if self.is_custom() { &ALL[..2] } else { &ALL }
    }

    /// Returns the name of an object in a Status: with its resource.
    pub(crate) fn about<'n>(&self, name: &'n str) -> ObjectName<'n> {
        ObjectName {
            resource: self.name,
            group: self.group,
            name,
        }
    }

    /// Returns the name of an object in errors of a deletion's preconditions: with its kind.
    pub(crate) fn about_kind<'n>(&self, name: &'n str) -> ObjectName<'n> {
        ObjectName {
            resource: self.kind,
            group: self.group,
            name,
        }
    }

    /// Returns whether the response to a DELETE is the deleted object.
    pub(crate) fn returns_deleted(&self) -> bool {
        self.kind == "Pod"
    }

    /// Returns the rule for names.
    pub(crate) fn name_rule(&self) -> NameRule {
        match self.kind {
            "Namespace" => NameRule::Label,
            "Event" => NameRule::PathSegment,
            _ => NameRule::Subdomain,
        }
    }

    /// Returns whether `metadata.generation` counts changes of the spec.
    pub(crate) fn has_generation(&self) -> bool {
        self.kind == "Pod" || self.is_custom()
    }

    /// Returns whether the status is a subresource (`…/NAME/status`).
    pub(crate) fn has_status(&self) -> bool {
        matches!(self.kind, "Pod" | "Node" | "Namespace") || self.is_custom()
    }

    /// Returns whether the status of a new object is dropped. Unlike in kube-apiserver, pods keep
    /// theirs, because loads create running pods. Nodes register with a status.
    pub(crate) fn drops_status_on_create(&self) -> bool {
        self.kind == "Namespace" || self.is_custom()
    }

    /// Returns whether a PUT must contain the `resourceVersion` that it replaces.
    pub(crate) fn requires_resource_version(&self) -> bool {
        self.kind == "Lease" || self.is_custom()
    }

    /// Returns whether a PUT creates an object that does not exist.
    pub(crate) fn allows_create_on_update(&self) -> bool {
        matches!(self.kind, "Lease" | "Event")
    }

    /// Returns whether a collection can be deleted by one request. Namespaces cannot, because
    /// deleting one also deletes its objects.
    pub(crate) fn deletes_collections(&self) -> bool {
        self.kind != "Namespace"
    }

    /// Returns whether the object of this name can never be deleted.
    pub(crate) fn is_undeletable(&self, name: &str) -> bool {
        self.kind == "Namespace" && matches!(name, "default" | "kube-system" | "kube-public")
    }

    /// Returns whether objects expire.
    pub(crate) fn has_ttl(&self) -> bool {
        self.kind == "Event"
    }

    /// Returns whether this is a custom resource, which has no schema and is stored as JSON.
    pub(crate) fn is_custom(&self) -> bool {
        self.schema().is_none()
    }
}
