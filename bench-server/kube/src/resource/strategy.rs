//! What differs between kinds when they are written.

use kube_api::status::writes::About;

use super::Resource;
use super::name_rule::NameRule;

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

impl Resource {
    /// Returns the media types of patches of this kind; strategic merge needs to know the kind's fields.
    /// Server-side apply is not among them.
    pub(crate) fn patch_media_types(&self) -> &'static [&'static str] {
        const ALL: [&str; 3] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH];
        if self.is_custom() { &ALL[..2] } else { &ALL }
    }

    /// How Statuses name an object of this kind.
    pub(crate) fn about<'n>(&self, name: &'n str) -> About<'n> {
        About {
            resource: self.name,
            group: self.group,
            name,
        }
    }

    /// The same by its kind, as preconditions of a deletion name it.
    pub(crate) fn about_kind<'n>(&self, name: &'n str) -> About<'n> {
        About {
            resource: self.kind,
            group: self.group,
            name,
        }
    }

    /// Whether a DELETE answers with the object that is gone.
    pub(crate) fn returns_deleted(&self) -> bool {
        self.kind == "Pod"
    }

    /// Which names are allowed.
    pub(crate) fn name_rule(&self) -> NameRule {
        match self.kind {
            "Namespace" => NameRule::Label,
            _ => NameRule::Subdomain,
        }
    }

    /// Whether the server counts changes of the spec.
    pub(crate) fn has_generation(&self) -> bool {
        self.kind == "Pod" || self.is_custom()
    }

    /// Whether the status is written by a request of its own (`…/NAME/status`).
    pub(crate) fn has_status(&self) -> bool {
        matches!(self.kind, "Pod" | "Node" | "Namespace") || self.is_custom()
    }

    /// Whether a new object's status is dropped. Pods keep theirs, unlike an apiserver's: loads are made of pods
    /// that run. Nodes register with one.
    pub(crate) fn drops_status_on_create(&self) -> bool {
        self.kind == "Namespace" || self.is_custom()
    }

    /// Whether a PUT must say which version it replaces.
    pub(crate) fn requires_resource_version(&self) -> bool {
        self.kind == "Lease" || self.is_custom()
    }

    /// Whether a PUT of an object that is not there creates it.
    pub(crate) fn allows_create_on_update(&self) -> bool {
        matches!(self.kind, "Lease" | "Event")
    }

    /// Whether many of them are deleted by one request. Namespaces are not: each takes its objects with it.
    pub(crate) fn deletes_collections(&self) -> bool {
        self.kind != "Namespace"
    }

    /// Whether nobody may delete the object of this name.
    pub(crate) fn is_undeletable(&self, name: &str) -> bool {
        self.kind == "Namespace" && matches!(name, "default" | "kube-system" | "kube-public")
    }

    /// Whether its objects expire.
    pub(crate) fn has_ttl(&self) -> bool {
        self.kind == "Event"
    }

    /// Custom resources have no schema here and are stored as JSON.
    pub(crate) fn is_custom(&self) -> bool {
        self.schema().is_none()
    }
}
