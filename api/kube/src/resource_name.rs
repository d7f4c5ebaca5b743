//! A resource type as a user names it, in kubectl's syntax: `pods`, `deployments.apps`,
//! `deployments.v1.apps`, `widgets.example.com`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a resource type. Only a server's discovery documents determine which type it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName(String);

/// The error for a text that cannot name a resource type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` {reason}; a resource is named as pods, deployments.apps, deployments.v1.apps or widgets.example.com"
)]
pub struct ResourceNameError {
    /// The text.
    pub text: String,
    /// The reason why it is invalid.
    pub reason: &'static str,
}

/// One interpretation of a name. `None` stands for any version or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<'n> {
    /// Plural, singular, kind or short name, in lower case.
    pub resource: &'n str,
    /// Version of the group.
    pub version: Option<&'n str>,
    /// API group; empty for the core group.
    pub group: Option<&'n str>,
}

impl ResourceName {
    /// Returns the interpretations of the name in kubectl's order. `a.b.c` is `a` in version `b` of
    /// group `c`, or else `a` of group `b.c`.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading<'_>> {
        let Some((resource, rest)) = self.0.split_once('.') else {
            return vec![Reading {
                resource: &self.0,
                version: None,
                group: None,
            }];
        };
        let versioned = rest.split_once('.').map(|(version, group)| Reading {
            resource,
            version: Some(version),
            group: Some(group),
        });
        let of_group = (!rest.ends_with('.')).then_some(Reading {
            resource,
            version: None,
            group: Some(rest),
        });
        versioned.into_iter().chain(of_group).collect()
    }
}

impl FromStr for ResourceName {
    type Err = ResourceNameError;

    fn from_str(text: &str) -> Result<Self, ResourceNameError> {
        let refused = |reason| ResourceNameError {
            text: text.to_owned(),
            reason,
        };
        if text.contains('/') {
            return Err(refused("is a part of a resource, and is not listed"));
        }
        // `pods.v1.` is kubectl's name for version v1 of the core group.
        let labels = text.split('.').collect::<Vec<_>>();
        let of_core = labels.len() == 3 && labels[2].is_empty();
        let named = &labels[..labels.len() - usize::from(of_core)];
        let is_label = |label: &&str| {
            let mut bytes = label.bytes();
            !label.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        match named.iter().all(is_label) {
            true => Ok(Self(text.to_ascii_lowercase())),
            false => Err(refused("is no name of a resource")),
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ResourceName {
    type Error = ResourceNameError;

    fn try_from(text: String) -> Result<Self, ResourceNameError> {
        text.parse()
    }
}

impl From<ResourceName> for String {
    fn from(name: ResourceName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read<'n> = (&'n str, Option<&'n str>, Option<&'n str>);

    #[track_caller]
    fn assert_read(text: &str, expected: &[Read<'_>]) {
        let name: ResourceName = text.parse().expect("a name");
        let readings = name.readings();
        let read: Vec<_> = readings
            .iter()
            .map(|reading| (reading.resource, reading.version, reading.group))
            .collect();
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn names_are_read_as_kubectl_reads_them() {
        assert_read("pods", &[("pods", None, None)]);
        assert_read("Pod", &[("pod", None, None)]);
        assert_read("deployments.apps", &[("deployments", None, Some("apps"))]);
        assert_read(
            "deployments.v1.apps",
            &[
                ("deployments", Some("v1"), Some("apps")),
                ("deployments", None, Some("v1.apps")),
            ],
        );
        assert_read(
            "widgets.example.com",
            &[
                ("widgets", Some("example"), Some("com")),
                ("widgets", None, Some("example.com")),
            ],
        );
        assert_read("pods.v1.", &[("pods", Some("v1"), Some(""))]);
    }

    #[test]
    fn other_texts_are_refused_with_the_forms() {
        for (text, says) in [
            ("", "is no name"),
            (".", "is no name"),
            ("pods.", "is no name"),
            (".apps", "is no name"),
            ("deployments..apps", "is no name"),
            ("deployments.v1.apps.", "is no name"),
            ("po ds", "is no name"),
            ("pods?limit=1", "is no name"),
            ("pods/status", "is a part"),
            ("../pods", "is a part"),
        ] {
            let error = text.parse::<ResourceName>().expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(error.contains("deployments.v1.apps"), "{text}: {error}");
        }
    }
}
