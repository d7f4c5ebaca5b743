//! Whether a case was measured, and if not, why.

use serde::{Deserialize, Serialize};

/// Whether a case was measured, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// The case ran to its end.
    Measured,
    /// The target does not support the case, or this machine has too few resources for it.
    NotApplicable {
        /// The reason, with the number that decided.
        reason: String,
    },
    /// The target sent a wrong response, or died.
    Failed {
        /// The first error.
        reason: String,
    },
    /// The case ran, but its metrics say nothing about the target.
    Invalid {
        /// What made them invalid.
        reason: String,
    },
    /// The case was stopped because the server holds other people's data and suffered.
    Stopped {
        /// The server's symptom, or the limit that was reached.
        reason: String,
    },
    /// The run was stopped from outside while this case was measured.
    Interrupted,
}

impl Outcome {
    /// Returns the reason, where there is one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::NotApplicable { reason }
            | Self::Failed { reason }
            | Self::Invalid { reason }
            | Self::Stopped { reason } => Some(reason),
            Self::Measured => None,
            Self::Interrupted => Some("interrupted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told_apart_by_their_state() {
        let json = serde_json::to_value(Outcome::NotApplicable {
            reason: "no RangeStream".into(),
        })
        .expect("plain data");
        assert_eq!(
            json,
            serde_json::json!({"state": "not_applicable", "reason": "no RangeStream"})
        );
        assert_eq!(
            serde_json::to_value(Outcome::Measured).expect("plain data"),
            serde_json::json!({"state": "measured"})
        );
    }
}
