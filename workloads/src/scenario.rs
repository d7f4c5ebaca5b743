//! Scenarios: what is loaded, which rows are measured on it, and how often.
//!
//! A scenario is a TOML file with comments. The built-in ones are part of the program, so that a
//! binary alone can run them, and they double as the examples that other people's files start from.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::nearest::nearest;
use crate::strategy::{Strategy, Tier};

/// The scenario that `loadgen` runs when none is named.
pub const DEFAULT: &str = "pods-150k";

const BUILT_IN: [(&str, &str); 4] = [
    ("pods-150k", include_str!("../scenarios/pods-150k.toml")),
    ("list-large", include_str!("../scenarios/list-large.toml")),
    ("objects-1mb", include_str!("../scenarios/objects-1mb.toml")),
    (
        "stream-shapes",
        include_str!("../scenarios/stream-shapes.toml"),
    ),
];

/// What to load, which rows to measure on it, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Name by which it is run.
    pub name: String,
    /// One line for `loadgen scenarios`.
    pub summary: String,
    /// What a reader should look at in its report.
    pub description: String,
    /// Measured whole lists per row and client.
    pub repeats: u32,
    /// Lists at the same time.
    pub clients: u32,
    /// Whole lists before measuring.
    pub warmup: u32,
    /// Streams that are cancelled after their first chunk; 0 for none.
    pub first_chunk_streams: u32,
    /// Strategies per tier, in the order in which they run.
    pub rows: Rows,
    /// Each is loaded and measured by itself, in this order; never empty.
    #[serde(rename = "data_set")]
    pub data_sets: Vec<DataSetSpec>,
}

/// Strategies per tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Rows of the etcd tier.
    #[serde(default)]
    pub etcd: Vec<Strategy>,
    /// Rows of the Kubernetes tier.
    #[serde(default)]
    pub kube: Vec<Strategy>,
}

/// What kind of objects a data set holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Pods as an apiserver stores them, about 10.1 KB each.
    Pods,
    /// ConfigMaps as an apiserver stores them, of any size.
    ConfigMaps,
    /// Keys with random bytes, which no apiserver could read.
    Raw,
}

impl Kind {
    /// Whether the Kubernetes tier can serve these objects.
    pub fn is_kubernetes(self) -> bool {
        self != Self::Raw
    }
}

/// A data set as a scenario describes it: everything that its bytes depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSetSpec {
    /// Name in results; unique in its scenario.
    pub name: String,
    /// What kind of objects.
    pub kind: Kind,
    /// How many.
    pub objects: NonZeroU64,
    /// Bytes of each stored value, exact; only for `config-maps` and `raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_size: Option<NonZeroU64>,
    /// Namespaces that the objects are spread over; only for `pods` and `config-maps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<NonZeroU32>,
    /// Nodes that the pods run on; only for `pods`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NonZeroU32>,
    /// Every object is a function of this and its number.
    pub seed: u64,
}

/// What the command line changes about a scenario; `None` leaves it as the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--objects`, of every data set.
    pub objects: Option<NonZeroU64>,
    /// `--object-size` in bytes, of every data set that has a size; pods have their own.
    pub object_size: Option<NonZeroU64>,
    /// `--seed`, of every data set.
    pub seed: Option<u64>,
    /// `--repeats`.
    pub repeats: Option<NonZeroU32>,
    /// `--clients`.
    pub clients: Option<NonZeroU32>,
    /// `--strategies`: rows to keep or to add, in this order, on each tier that has them.
    pub strategies: Option<Vec<Strategy>>,
}

/// A scenario could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// No built-in scenario has this name.
    #[error(
        "unknown scenario `{name}`, did you mean `{nearest}`? (`loadgen scenarios` lists them)"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in name that is closest to it.
        nearest: &'static str,
    },
    /// The file could not be read.
    #[error("scenario {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not a scenario.
    #[error("scenario {origin}, line {line}: {message}")]
    Invalid {
        /// File or built-in name.
        origin: String,
        /// Line of the offending value, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// An override cannot be applied.
    #[error("scenario `{scenario}`: {message}")]
    Override {
        /// The scenario.
        scenario: String,
        /// What is wrong.
        message: String,
    },
}

/// The file's shape; spans lead an error back to its line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    summary: String,
    #[serde(default)]
    description: String,
    repeats: NonZeroU32,
    #[serde(default = "one")]
    clients: NonZeroU32,
    #[serde(default)]
    warmup: u32,
    #[serde(default)]
    first_chunk_streams: u32,
    rows: Spanned<Rows>,
    data_set: Vec<Spanned<DataSetSpec>>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

// === impl Scenario ===

impl Scenario {
    /// The built-in scenario of this name.
    ///
    /// # Errors
    /// [`ScenarioError::Unknown`] with the nearest name.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            Some((origin, text)) => Self::parse(text, origin),
            None => Err(ScenarioError::Unknown {
                name: name.to_owned(),
                nearest: nearest(name, &BUILT_IN.map(|(name, _)| name)).unwrap_or(DEFAULT),
            }),
        }
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError::Read`], or [`ScenarioError::Invalid`] with the line.
    pub fn from_path(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a scenario from `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] with the line of what is unknown, missing or contradictory.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ScenarioError> {
        let invalid = |start: usize, message: String| ScenarioError::Invalid {
            origin: origin.to_owned(),
            line: 1 + text[..start.min(text.len())].matches('\n').count(),
            message,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            invalid(start, error.message().to_owned())
        })?;

        let name_start = file.name.span().start;
        let name = file.name.into_inner();
        if name.is_empty()
            || !name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            let message = format!("name `{name}` may hold only letters, digits, `-`, `_` and `.`");
            return Err(invalid(name_start, message));
        }

        let rows_start = file.rows.span().start;
        let rows = file.rows.into_inner();
        rows.check()
            .map_err(|message| invalid(rows_start, message))?;

        let mut data_sets: Vec<DataSetSpec> = Vec::with_capacity(file.data_set.len());
        for spec in file.data_set {
            let start = spec.span().start;
            let spec = spec.into_inner();
            spec.check().map_err(|message| invalid(start, message))?;
            if data_sets.iter().any(|other| other.name == spec.name) {
                let message = format!("data set `{}` is there twice", spec.name);
                return Err(invalid(start, message));
            }
            data_sets.push(spec);
        }
        if data_sets.is_empty() {
            return Err(invalid(0, "at least one [[data_set]] is needed".to_owned()));
        }

        Ok(Self {
            name,
            summary: file.summary,
            description: file.description.trim().to_owned(),
            repeats: file.repeats.get(),
            clients: file.clients.get(),
            warmup: file.warmup,
            first_chunk_streams: file.first_chunk_streams,
            rows,
            data_sets,
        })
    }

    /// Applies what the command line asks for.
    ///
    /// # Errors
    /// [`ScenarioError::Override`] when nothing of it could be applied (a size for pods, only
    /// strategies that no tier has) or the result contradicts itself.
    pub fn override_with(&mut self, overrides: &Overrides) -> Result<(), ScenarioError> {
        let refuse = |scenario: &Self, message: String| ScenarioError::Override {
            scenario: scenario.name.clone(),
            message,
        };
        let mut sized = false;
        for spec in &mut self.data_sets {
            spec.objects = overrides.objects.unwrap_or(spec.objects);
            spec.seed = overrides.seed.unwrap_or(spec.seed);
            if let (Some(size), Kind::ConfigMaps | Kind::Raw) = (overrides.object_size, spec.kind) {
                spec.object_size = Some(size);
                sized = true;
            }
        }
        if overrides.object_size.is_some() && !sized {
            return Err(refuse(
                self,
                "--object-size does not apply: pods have a size of their own".to_owned(),
            ));
        }
        if let Some(Err(message)) = self
            .data_sets
            .iter()
            .map(DataSetSpec::check)
            .find(Result::is_err)
        {
            return Err(refuse(self, message));
        }
        if let Some(repeats) = overrides.repeats {
            self.repeats = repeats.get();
        }
        if let Some(clients) = overrides.clients {
            self.clients = clients.get();
        }
        if let Some(strategies) = &overrides.strategies {
            let on = |tier| {
                strategies
                    .iter()
                    .copied()
                    .filter(move |s| s.runs_on(tier))
                    .collect()
            };
            let rows = Rows {
                etcd: on(Tier::Etcd),
                kube: on(Tier::Kube),
            };
            rows.check().map_err(|message| refuse(self, message))?;
            self.rows = rows;
        }
        Ok(())
    }

    /// The scenario as a file, to be kept beside its result.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a scenario holds nothing that TOML cannot say")
    }
}

/// The built-in scenarios, the default one first.
pub fn built_in() -> Vec<Scenario> {
    BUILT_IN
        .iter()
        .map(|(origin, text)| Scenario::parse(text, origin).expect("built-in scenarios are tested"))
        .collect()
}

// === impl Rows ===

impl Rows {
    /// Strategies of one tier.
    pub fn of(&self, tier: Tier) -> &[Strategy] {
        match tier {
            Tier::Etcd => &self.etcd,
            Tier::Kube => &self.kube,
        }
    }

    fn check(&self) -> Result<(), String> {
        for tier in [Tier::Etcd, Tier::Kube] {
            let rows = self.of(tier);
            for (i, strategy) in rows.iter().enumerate() {
                if !strategy.runs_on(tier) {
                    return Err(format!("the {tier} tier has no strategy `{strategy}`"));
                }
                if rows[..i].contains(strategy) {
                    return Err(format!(
                        "strategy `{strategy}` is there twice for the {tier} tier"
                    ));
                }
            }
        }
        if self.etcd.is_empty() && self.kube.is_empty() {
            return Err("at least one strategy is needed".to_owned());
        }
        Ok(())
    }
}

// === impl DataSetSpec ===

impl DataSetSpec {
    /// Whether the fields fit the kind and each other.
    fn check(&self) -> Result<(), String> {
        let (size, namespaces, nodes) = match self.kind {
            Kind::Pods => (false, true, true),
            Kind::ConfigMaps => (true, true, false),
            Kind::Raw => (true, false, false),
        };
        let fields = [
            ("object_size", self.object_size.is_some(), size),
            ("namespaces", self.namespaces.is_some(), namespaces),
            ("nodes", self.nodes.is_some(), nodes),
        ];
        for (field, given, wanted) in fields {
            if given != wanted {
                let verb = if wanted { "needs" } else { "does not take" };
                return Err(format!(
                    "data set `{}` of this kind {verb} `{field}`",
                    self.name
                ));
            }
        }
        match self.object_size.map(NonZeroU64::get) {
            Some(size) if size < self.kind.smallest_size() => Err(format!(
                "data set `{}`: object_size {size} is too small, at least {} bytes are needed",
                self.name,
                self.kind.smallest_size()
            )),
            Some(size) if size > LARGEST_SIZE => Err(format!(
                "data set `{}`: object_size {size} is too large, etcd takes requests of at most {LARGEST_SIZE} bytes",
                self.name
            )),
            _ => Ok(()),
        }
    }
}

/// etcd's default `--max-request-bytes`, 1.5 MiB.
const LARGEST_SIZE: u64 = 1_572_864;

impl Kind {
    fn smallest_size(self) -> u64 {
        match self {
            // Metadata and envelope of a ConfigMap whose data is next to nothing.
            Self::ConfigMaps => 700,
            Self::Pods | Self::Raw => 1,
        }
    }
}

#[cfg(test)]
mod tests;
