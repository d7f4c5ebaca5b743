//! What became of a rule.

use serde::Serialize;

use super::rule::Rule;

/// What became of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the contract has it.
    Honoured,
    /// Not there, which a client can find out and live with.
    Lacking,
    /// There, but not as the contract has it.
    Broken,
    /// Not tried, for the reason that stands where the answer would.
    NotTried,
}

impl Verdict {
    /// Returns the name in text and in JSON.
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

/// A rule, what was sent for it, and what came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, as `txn-create`.
    pub rule: &'static str,
    /// What became of it.
    pub verdict: Verdict,
    /// What the contract says.
    pub contract: &'static str,
    /// What was sent.
    pub sent: &'static str,
    /// What came back, or why nothing was sent.
    pub came: String,
}

impl Finding {
    pub(super) fn of(rule: &Rule, verdict: Verdict, came: impl Into<String>) -> Self {
        Self {
            rule: rule.name,
            verdict,
            contract: rule.contract,
            sent: rule.sent,
            came: came.into(),
        }
    }
}
