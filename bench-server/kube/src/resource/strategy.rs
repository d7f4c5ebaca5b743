//! What differs between kinds when they are written, as the strategies of an apiserver's registry.

use kube_api::status::writes::ObjectName;

use super::Resource;
use super::name_rule::NameRule;

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

impl Resource {
    /// Returns the media types of patches. Strategic merge needs to know the kind's fields.
    /// Server-side apply is not supported.
    pub(crate) fn patch_media_types(&self) -> &'static [&'static str] {
        const ALL: [&str; 3] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH];
        if self.is_custom() { &ALL[..2] } else { &ALL }
    }

    /// Returns how a Status names an object: by its resource.
    pub(crate) fn about<'n>(&self, name: &'n str) -> ObjectName<'n> {
        ObjectName {
            resource: self.name,
            group: self.group,
            name,
        }
    }

    /// Returns how preconditions of a deletion name an object: by its kind.
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

    /// Returns which names are allowed.
    pub(crate) fn name_rule(&self) -> NameRule {
        match self.kind {
            "Namespace" => NameRule::Label,
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

    /// Returns whether a new object's status is dropped. Pods keep theirs, unlike with an
    /// apiserver: loads are made of pods that run. Nodes register with one.
    pub(crate) fn drops_status_on_create(&self) -> bool {
        self.kind == "Namespace" || self.is_custom()
    }

    /// Returns whether a PUT must name the `resourceVersion` that it replaces.
    pub(crate) fn requires_resource_version(&self) -> bool {
        self.kind == "Lease" || self.is_custom()
    }

    /// Returns whether a PUT creates an object that does not exist.
    pub(crate) fn allows_create_on_update(&self) -> bool {
        matches!(self.kind, "Lease" | "Event")
    }

    /// Returns whether a collection can be deleted by one request. Namespaces cannot: each has its
    /// objects deleted.
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

    /// Returns whether it is a custom resource, which has no schema here and is stored as JSON.
    pub(crate) fn is_custom(&self) -> bool {
        self.schema().is_none()
    }
}
