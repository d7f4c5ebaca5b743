//! Runs of `loadgen probe`, and their findings.

use assert_cmd::Command;
use serde_json::Value;

use super::program::ended_with_json;

/// Runs `loadgen probe TARGET`; returns exit code, JSON and standard error.
pub(crate) fn probe(target: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let output = Command::cargo_bin("loadgen")
        .expect("it is built for its tests")
        .args(["probe", target, "--format", "json"])
        .args(more)
        .output()
        .expect("it runs");
    ended_with_json(&output)
}

/// Returns the names of the rules with this verdict.
pub(crate) fn rules<'d>(document: &'d Value, verdict: &str) -> Vec<&'d str> {
    let rules = document["rules"].as_array().expect("rules");
    let rules = rules.iter().filter(|rule| rule["verdict"] == verdict);
    rules
        .map(|rule| rule["rule"].as_str().expect("a name"))
        .collect()
}

/// Defines an enum of violations of a server, each with the rule that it breaks.
macro_rules! lies {
    ($lie:ident: $($(#[$doc:meta])* $name:ident breaks $rule:literal;)*) => {
        /// A violation of a server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $lie {
            /// No violation.
            None,
            $($(#[$doc])* $name,)*
        }

        impl $lie {
            pub(crate) const ALL: [Self; [$($rule),*].len()] = [$(Self::$name),*];

            /// Returns the rule that the violation breaks. It may also break others.
            pub(crate) fn rule(self) -> &'static str {
                match self {
                    Self::None => "",
                    $(Self::$name => $rule,)*
                }
            }
        }
    };
}

pub(crate) use lies;
