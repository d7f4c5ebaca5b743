//! Thresholds that hold for one machine: limits in time and CPU, in a file of their own.
//!
//! Built-in scenarios have ratios and limits of memory, which hold anywhere. What takes 400 ms on
//! one machine takes a second on another, so such a limit stands beside the results of its machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::{Scenario, ThresholdSpec, line_at};

/// The thresholds of a file: tables like a scenario's `[[threshold]]`, each named after its
/// scenario.
#[derive(Debug, Clone)]
pub struct MachineThresholds {
    path: PathBuf,
    text: String,
    by_scenario: BTreeMap<String, Vec<Spanned<ThresholdSpec>>>,
}

/// The error of a file of thresholds.
#[derive(Debug, thiserror::Error)]
pub enum MachineThresholdsError {
    /// The file could not be read.
    #[error("thresholds {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// What the file has is no threshold, or none of its scenario.
    #[error("thresholds {}, line {line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line of the mistake, from 1.
        line: usize,
        /// The mistake.
        message: String,
    },
}

impl MachineThresholds {
    /// Reads a file.
    ///
    /// # Errors
    /// [`MachineThresholdsError`].
    pub fn from_path(path: &Path) -> Result<Self, MachineThresholdsError> {
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|source| MachineThresholdsError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(text, path.to_owned())
    }

    fn parse(text: String, path: PathBuf) -> Result<Self, MachineThresholdsError> {
        match toml::from_str(&text) {
            Ok(by_scenario) => Ok(Self {
                path,
                text,
                by_scenario,
            }),
            Err(error) => Err(MachineThresholdsError::Invalid {
                path,
                line: line_at(&text, error.span().map_or(0, |span| span.start)),
                message: error.message().to_owned(),
            }),
        }
    }

    /// Adds to a scenario those of its thresholds that it does not have, as a saved scenario may.
    /// Call it before the overrides of the command line, which drop thresholds that do not hold for
    /// what they change. Returns whether the file has any for this scenario.
    ///
    /// # Errors
    /// [`MachineThresholdsError::Invalid`] with the line of a threshold that does not fit.
    pub fn add_to(&self, scenario: &mut Scenario) -> Result<bool, MachineThresholdsError> {
        let Some(thresholds) = self.by_scenario.get(&scenario.name) else {
            return Ok(false);
        };
        for threshold in thresholds {
            let (at, threshold) = (threshold.span().start, threshold.get_ref());
            let checked = threshold.check(scenario);
            checked.map_err(|message| MachineThresholdsError::Invalid {
                path: self.path.clone(),
                line: line_at(&self.text, at),
                message,
            })?;
            if !scenario.thresholds.contains(threshold) {
                scenario.thresholds.push(threshold.clone());
            }
        }
        Ok(true)
    }

    /// Returns the names of the scenarios for which the file has thresholds.
    pub fn scenarios(&self) -> impl Iterator<Item = &str> {
        self.by_scenario.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::built_in;

    fn parsed(text: &str) -> Result<MachineThresholds, MachineThresholdsError> {
        MachineThresholds::parse(text.to_owned(), "m.toml".into())
    }

    fn threshold(scenario: &str, case: &str) -> String {
        format!(
            "[[{scenario}]]\nname = \"a\"\ncase = \"{case}\"\nmetric = \"latency_ms.p50\"\nat_most = 600\n"
        )
    }

    #[test]
    fn each_scenario_gets_its_own_once() {
        let text = threshold("pods-150k", "etcd/stream") + &threshold("pods-80k", "kube/cached");
        let limits = parsed(&text).expect("two thresholds");
        let mut pods = Scenario::named("pods-150k").expect("built in");
        let before = pods.thresholds.len();
        for _ in 0..2 {
            assert!(limits.add_to(&mut pods).expect("it fits"));
            assert_eq!(pods.thresholds.len(), before + 1);
        }
        let mut growth = Scenario::named("growth").expect("built in");
        assert!(!limits.add_to(&mut growth).expect("none"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let refused = |text: &str| {
            let mut pods = Scenario::named("pods-150k").expect("built in");
            let added = parsed(text).and_then(|limits| limits.add_to(&mut pods));
            added.expect_err("a mistake").to_string()
        };
        let first = threshold("pods-150k", "etcd/stream");
        for (text, expected) in [
            (
                first.clone() + &threshold("pods-150k", "etcd/steam"),
                "thresholds m.toml, line 6: threshold `a`: there is no case `etcd/steam`, did you mean `etcd/stream`?",
            ),
            (
                first + "[[pods-80k]]\nname = \"a\"\ncas = \"etcd/stream\"\n",
                "thresholds m.toml, line 8: unknown field `cas`",
            ),
        ] {
            let found = refused(&text);
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn those_of_the_kept_results_fit_built_in_scenarios() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/machine.toml");
        let limits = MachineThresholds::from_path(&path).expect("it is kept");
        let mut built_in = built_in();
        let mut fitting = Vec::new();
        for scenario in &mut built_in {
            if limits.add_to(scenario).expect("they fit") {
                fitting.push(scenario.name.clone());
            }
        }
        fitting.sort();
        assert_eq!(limits.scenarios().collect::<Vec<_>>(), fitting);
    }

    /// Ratios, memory and what others have published hold anywhere; times and rates do not.
    #[test]
    fn built_in_scenarios_have_none() {
        let is_of_a_machine = |spec: &&ThresholdSpec| {
            let mut parts = spec.metric.split('.');
            let has_unit = parts.any(|part| {
                part.ends_with("_ms") || part.ends_with("_s") || part.contains("cpu_s")
            });
            has_unit && !spec.has_basis() && spec.source.is_none()
        };
        for scenario in built_in() {
            let found = scenario.thresholds.iter().find(is_of_a_machine);
            assert!(found.is_none(), "{}: {found:?}", scenario.name);
        }
    }
}
