//! What differs between kinds when they are written.

use kube_api::status::writes::About;

use super::name::NameRule;
use crate::kube::resource::Resource;

impl Resource {
    /// How Statuses name an object of this kind.
    pub(crate) fn about<'n>(&self, name: &'n str) -> About<'n> {
        About {
            resource: self.name,
            group: self.group,
            name,
        }
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

    /// Whether a PUT must say which version it replaces.
    pub(crate) fn needs_version(&self) -> bool {
        self.kind == "Lease" || self.is_custom()
    }

    /// Whether a PUT of an object that is not there creates it.
    pub(crate) fn creates_on_update(&self) -> bool {
        matches!(self.kind, "Lease" | "Event")
    }

    /// Whether its objects expire.
    pub(crate) fn expires(&self) -> bool {
        self.kind == "Event"
    }

    /// Custom resources have no schema here and are stored as JSON.
    pub(crate) fn is_custom(&self) -> bool {
        self.schema().is_none()
    }
}
