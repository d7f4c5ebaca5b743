//! The error for a name that means no listable resource type.

use crate::client::KubeError;
use crate::resource_name::ResourceName;

/// The reason why a name means no listable resource type of a server.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server could not be reached, or refused a request.
    #[error(transparent)]
    Api(#[from] KubeError),
    /// The server serves no resource of this name.
    #[error("has no resource `{name}`{}{}", hint(.suggestion.as_deref()), unasked(.silent))]
    Unknown {
        /// The name, as given.
        name: ResourceName,
        /// The most similar name of a resource that can be listed.
        suggestion: Option<String>,
        /// Group versions whose resources could not be read.
        silent: Vec<String>,
    },
    /// Several groups have a resource of this name.
    #[error("several groups have a resource `{name}`: name one of {}", .candidates.join(", "))]
    Ambiguous {
        /// The name, as given.
        name: ResourceName,
        /// The names of the candidates, with their groups.
        candidates: Vec<String>,
    },
    /// The resource is served, but cannot be listed.
    #[error("`{name}` cannot be listed: the server offers {}", offered(.verbs))]
    NotListable {
        /// The resource's name with its group.
        name: String,
        /// The verbs that the resource supports.
        verbs: Vec<String>,
    },
}

fn hint(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!(", did you mean `{suggestion}`?"),
        None => " (`kubectl api-resources` lists what there is)".to_owned(),
    }
}

fn unasked(silent: &[String]) -> String {
    match silent {
        [] => String::new(),
        silent => format!(" (nothing is known of {})", silent.join(", ")),
    }
}

fn offered(verbs: &[String]) -> String {
    match verbs {
        [] => "nothing for it".to_owned(),
        verbs => verbs.join(", "),
    }
}
