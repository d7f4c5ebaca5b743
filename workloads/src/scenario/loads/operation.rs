//! The operation of a load: a list, a watch, or a mix of small requests.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::mix::{Mix, MixError, WrittenMix};
use crate::strategy::{Strategy, StrategyError};

/// The operation of a load.
///
/// In a scenario file: `"put"`, `{ update = 90, create = 5, delete = 5 }`, `{ list = "stream" }`,
/// `"watch"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenOperation", into = "WrittenOperation")]
pub enum Operation {
    /// Small requests.
    Small(Mix),
    /// Whole lists, by a strategy.
    List(Strategy),
    /// Watchers of the whole data set. The latency of a delivery is the time from the intended
    /// start of another load's write to the arrival of its event at each watcher.
    Watch,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small(mix) => mix.fmt(f),
            Self::List(strategy) => write!(f, "list by {strategy}"),
            Self::Watch => f.write_str("watch"),
        }
    }
}

/// An invalid operation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OperationError {
    /// An invalid mix.
    #[error(transparent)]
    Mix(#[from] MixError),
    /// A list by an unknown strategy.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// A list in a mix of small requests.
    #[error(
        "`list` stands alone: one list takes as long as many small requests, so it is a load of its own"
    )]
    ListInMix,
    /// `list` is not a name.
    #[error("`list` needs the name of a strategy, as in {{ list = \"stream\" }}")]
    NoStrategy,
    /// A weight is not a number.
    #[error("operation `{0}` needs a weight, as in {{ get = 4, put = 1 }}")]
    NoWeight(String),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenOperation {
    Name(String),
    Table(BTreeMap<String, toml::Value>),
}

impl TryFrom<WrittenOperation> for Operation {
    type Error = OperationError;

    fn try_from(written: WrittenOperation) -> Result<Self, OperationError> {
        let table = match written {
            WrittenOperation::Name(name) if name == "watch" => return Ok(Self::Watch),
            WrittenOperation::Name(name) => {
                return Ok(Self::Small(WrittenMix::Name(name).try_into()?));
            }
            WrittenOperation::Table(table) => table,
        };
        if let Some(strategy) = table.get("list") {
            if table.len() > 1 {
                return Err(OperationError::ListInMix);
            }
            let strategy = strategy.as_str().ok_or(OperationError::NoStrategy)?;
            return Ok(Self::List(strategy.parse()?));
        }
        let mut weights = BTreeMap::new();
        for (name, weight) in table {
            let number = weight
                .as_float()
                .or_else(|| weight.as_integer().map(|weight| weight as f64));
            let number = number.ok_or_else(|| OperationError::NoWeight(name.clone()))?;
            weights.insert(name, number);
        }
        Ok(Self::Small(Mix::new(&weights)?))
    }
}

impl From<Operation> for WrittenOperation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Watch => Self::Name("watch".to_owned()),
            Operation::List(strategy) => Self::Table(BTreeMap::from([(
                "list".to_owned(),
                strategy.to_string().into(),
            )])),
            Operation::Small(mix) => match mix.into() {
                WrittenMix::Name(name) => Self::Name(name),
                WrittenMix::Weights(weights) => Self::Table(
                    weights
                        .into_iter()
                        .map(|(name, weight)| (name, weight.into()))
                        .collect(),
                ),
            },
        }
    }
}
