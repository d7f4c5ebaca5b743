//! Runs of `loadgen probe`, and what they found.

use assert_cmd::Command;
use serde_json::Value;

/// `loadgen probe TARGET`: exit code, JSON, and what was said on standard error.
pub(crate) fn probe(target: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let output = Command::cargo_bin("loadgen")
        .expect("it is built for its tests")
        .args(["probe", target, "--format", "json"])
        .args(more)
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), document, log)
}

/// Names of the rules with this verdict.
pub(crate) fn rules<'d>(document: &'d Value, verdict: &str) -> Vec<&'d str> {
    let rules = document["rules"].as_array().expect("rules");
    let rules = rules.iter().filter(|rule| rule["verdict"] == verdict);
    rules
        .map(|rule| rule["rule"].as_str().expect("a name"))
        .collect()
}

/// Defines an enum of what a server gets wrong, each with the rule that it breaks.
macro_rules! lies {
    ($lie:ident: $($(#[$doc:meta])* $name:ident breaks $rule:literal;)*) => {
        /// What is wrong with it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $lie {
            /// Nothing.
            None,
            $($(#[$doc])* $name,)*
        }

        impl $lie {
            pub(crate) const ALL: [Self; [$($rule),*].len()] = [$(Self::$name),*];

            /// Returns the rule that it breaks, others perhaps too.
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
