//! The arrivals of a load: closed loop or a schedule.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arrivals::Profile;
use crate::scenario::units::duration_text;

/// The name of the closed loop in a file.
const CLOSED: &str = "closed";

/// The arrivals of a load's operations.
///
/// In a scenario file: `"closed"`, `{ think = "50ms" }`, or a [`Profile`], like `{ poisson = 1000
/// }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "WrittenStart")]
pub enum Start {
    /// Each client starts the next operation after its response (closed loop).
    Closed {
        /// The time from the response to the next operation.
        think: Duration,
    },
    /// Operations start on a schedule, independent of responses (open loop).
    Open(Profile),
}

impl Default for Start {
    /// Returns a closed loop without think time.
    fn default() -> Self {
        Self::Closed {
            think: Duration::ZERO,
        }
    }
}

impl Start {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenStart {
    Name(&'static str),
    Thinking(Thinking),
    Profile(Profile),
}

/// A closed loop with think time, in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thinking {
    #[serde(with = "duration_text")]
    think: Duration,
}

impl From<Start> for WrittenStart {
    fn from(start: Start) -> Self {
        match start {
            Start::Closed { think } if think.is_zero() => Self::Name(CLOSED),
            Start::Closed { think } => Self::Thinking(Thinking { think }),
            Start::Open(profile) => Self::Profile(profile),
        }
    }
}

impl TryFrom<toml::Value> for Start {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        if value.as_str() == Some(CLOSED) {
            return Ok(Self::default());
        }
        let is_thinking = value.get("think").is_some();
        let start = match is_thinking {
            true => value
                .try_into()
                .map(|Thinking { think }| Self::Closed { think }),
            false => value.try_into().map(Self::Open),
        };
        start.map_err(|e| {
            let what = e.message().trim();
            format!(
                "arrivals are `\"closed\"`, {{ think = \"50ms\" }}, or a profile as {{ poisson = 1000 }}: {what}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Load {
        arrivals: Start,
    }

    #[test]
    fn arrivals_survive_a_round_trip() {
        let think = Duration::from_millis(50);
        for (text, arrivals) in [
            ("\"closed\"", Start::default()),
            ("{ think = \"50ms\" }", Start::Closed { think }),
            ("{ poisson = 1000 }", Start::Open(Profile::Poisson(1_000.0))),
        ] {
            let read: Load = toml::from_str(&format!("arrivals = {text}")).expect(text);
            assert_eq!(read.arrivals, arrivals, "{text}");
            let written = toml::to_string(&read).expect("TOML");
            assert_eq!(
                toml::from_str::<Load>(&written).ok(),
                Some(read),
                "{written}"
            );
        }
    }

    #[test]
    fn arrivals_that_are_none_are_told_what_there_is() {
        for text in [
            "\"open\"",
            "{ think = 50 }",
            "{ think = \"50ms\", poisson = 3 }",
            "{ thinks = \"50ms\" }",
        ] {
            let read = toml::from_str::<Load>(&format!("arrivals = {text}"));
            let error = read.expect_err(text).to_string();
            assert!(error.contains("{ think = \"50ms\" }"), "{text}: {error}");
        }
    }
}
