//! What a probe found of an existing endpoint before anything was measured on it.

use serde::{Deserialize, Serialize};

/// Which rules of the contract an endpoint honours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Conformance {
    /// The target, as in [`super::ServerSetup::target`].
    pub target: String,
    /// Version that the server says it is.
    pub version: String,
    /// Rules that are honoured.
    pub honoured: Vec<String>,
    /// Rules that are not, or were not tried.
    pub others: Vec<RuleFinding>,
}

/// A rule that is not honoured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuleFinding {
    /// Its name, as `range-stream`.
    pub rule: String,
    /// `lacking`, `broken` or `not_tried`.
    pub verdict: String,
    /// What came back, or why it was not tried.
    pub came: String,
}
