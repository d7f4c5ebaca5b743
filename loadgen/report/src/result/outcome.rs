//! Whether a case was measured, and if not, why.

use serde::{Deserialize, Serialize};

/// Whether a case was measured, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// It ran to its end.
    Measured,
    /// The target cannot do it, or this machine cannot hold it.
    NotApplicable {
        /// Why, with the figure that decided.
        reason: String,
    },
    /// The target answered wrongly, or died.
    Failed {
        /// What happened first.
        reason: String,
    },
    /// It ran, but the figures say nothing about the target.
    Invalid {
        /// What spoiled them.
        reason: String,
    },
    /// It was stopped, since the server holds other people's data and suffered.
    Stopped {
        /// What the server showed, or which limit was reached.
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
