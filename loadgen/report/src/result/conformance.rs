//! The results of probing an existing endpoint before anything is measured on it.

use serde::{Deserialize, Serialize};

/// The rules of the contract that an endpoint honours, and those that it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conformance {
    /// The target, as in [`super::ServerSetup::target`].
    pub target: String,
    /// Version that the server reports.
    pub version: String,
    /// The rules that the endpoint honours.
    pub honoured: Vec<String>,
    /// The rules that it does not honour, or that were not tried.
    pub others: Vec<RuleFinding>,
}

/// A rule that an endpoint does not honour, or that was not tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuleFinding {
    /// The rule's name, as `range-stream`.
    pub rule: String,
    /// The verdict: `lacking`, `broken` or `not_tried`.
    pub verdict: String,
    /// What the endpoint returned, or why the rule was not tried.
    pub came: String,
}
