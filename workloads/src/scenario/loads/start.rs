//! The arrivals of a load: closed loop or a schedule.

use serde::{Deserialize, Serialize};

use crate::arrivals::Profile;

/// The name of the closed loop in a file.
const CLOSED: &str = "closed";

/// The arrivals of a load's operations.
///
/// In a scenario file: `"closed"`, or a [`Profile`], like `{ poisson = 1000 }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "toml::Value", into = "WrittenStart")]
pub enum Start {
    /// Each client starts the next operation after its response (closed loop).
    #[default]
    Closed,
    /// Operations start on a schedule, independent of responses (open loop).
    Open(Profile),
}

impl Start {
    pub(super) fn is_closed(&self) -> bool {
        *self == Self::Closed
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenStart {
    Name(&'static str),
    Profile(Profile),
}

impl From<Start> for WrittenStart {
    fn from(start: Start) -> Self {
        match start {
            Start::Closed => Self::Name(CLOSED),
            Start::Open(profile) => Self::Profile(profile),
        }
    }
}

impl TryFrom<toml::Value> for Start {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        if value.as_str() == Some(CLOSED) {
            return Ok(Self::Closed);
        }
        let profile = value.try_into();
        profile.map(Self::Open).map_err(|e| {
            let what = e.message().trim();
            format!("arrivals are `\"closed\"`, or a profile as {{ poisson = 1000 }}: {what}")
        })
    }
}
