//! Why a name means no resource type that can be listed.

use crate::client::KubeError;
use crate::resource_name::ResourceName;

/// Why a name means no resource type that can be listed on a server.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server could not be reached, or refused.
    #[error(transparent)]
    Api(#[from] KubeError),
    /// It serves nothing of this name.
    #[error("has no resource `{name}`{}{}", hint(.suggestion.as_deref()), unasked(.silent))]
    Unknown {
        /// The name as given.
        name: ResourceName,
        /// The most similar name of a resource that can be listed.
        suggestion: Option<String>,
        /// Versions of groups that did not say what they serve.
        silent: Vec<String>,
    },
    /// Several groups have a resource of this name.
    #[error("several groups have a resource `{name}`: name one of {}", .candidates.join(", "))]
    Ambiguous {
        /// The name as given.
        name: ResourceName,
        /// Names with a group.
        candidates: Vec<String>,
    },
    /// It is served, but not as a list.
    #[error("`{name}` cannot be listed: the server offers {}", offered(.verbs))]
    NotListable {
        /// Its name with the group.
        name: String,
        /// What can be done with it.
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
