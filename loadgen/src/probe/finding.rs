//! The outcome of a rule.

use serde::Serialize;

use super::rule::Rule;

/// The outcome of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleVerdict {
    /// The server behaves as the contract says.
    Honoured,
    /// The feature is missing, which a client can detect and work around.
    Lacking,
    /// The feature exists, and does not behave as the contract says.
    Broken,
    /// The rule was not tried; [`Finding::received`] has the reason.
    NotTried,
}

impl RuleVerdict {
    /// Returns the verdict's name in text and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Lacking => "lacking",
            Self::Broken => "broken",
            Self::NotTried => "not_tried",
        }
    }
}

/// A rule, what was sent for it, and what was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's name, as `txn-create`.
    pub rule: &'static str,
    /// The outcome.
    pub verdict: RuleVerdict,
    /// The statement of the contract.
    pub contract: &'static str,
    /// The requests that were sent.
    pub sent: &'static str,
    /// What was received, or the reason why nothing was sent.
    #[serde(rename = "came")]
    pub received: String,
}

impl Finding {
    pub(super) fn of(rule: &Rule, verdict: RuleVerdict, received: impl Into<String>) -> Self {
        Self {
            rule: rule.name,
            verdict,
            contract: rule.contract,
            sent: rule.sent,
            received: received.into(),
        }
    }
}
