//! Thresholds that hold for one machine: limits in time and CPU, in a file of their own.
//!
//! Built-in scenarios have ratios and limits of memory, which hold anywhere. What takes 400 ms on
//! one machine takes a second on another, so such a limit stands beside the results of its machine.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;

use super::{BUILT_IN, Scenario, ScenarioError, ThresholdSpec, line_at};
use crate::did_you_mean::did_you_mean;

/// The thresholds of a file: tables as a scenario's `[[threshold]]`, each named after its scenario.
#[derive(Debug, Clone)]
pub struct MachineThresholds {
    /// Path of the file, for errors.
    origin: String,
    text: String,
    by_scenario: BTreeMap<Spanned<String>, Vec<Spanned<ThresholdSpec>>>,
}

impl MachineThresholds {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ScenarioError::Read`]; [`ScenarioError::Invalid`] with the line of what is no threshold.
    pub fn from_path(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(text, path.display().to_string())
    }

    fn parse(text: String, origin: String) -> Result<Self, ScenarioError> {
        match toml::from_str(&text) {
            Ok(by_scenario) => Ok(Self {
                origin,
                text,
                by_scenario,
            }),
            Err(error) => Err(ScenarioError::Invalid {
                origin,
                line: line_at(&text, error.span().map_or(0, |span| span.start)),
                message: error.message().to_owned(),
            }),
        }
    }

    /// Adds to each scenario its thresholds. Apply it before the overrides of the command line,
    /// which drop thresholds that do not hold for what they change.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] with the line of a threshold that does not fit its scenario, or of
    /// a name that is neither among `scenarios` nor built in.
    pub fn add_to(&self, scenarios: &mut [Scenario]) -> Result<(), ScenarioError> {
        let built_in = BUILT_IN.map(|(name, _)| name);
        for (name, thresholds) in &self.by_scenario {
            let name_at = name.span().start;
            let name = name.get_ref();
            let mut is_known = built_in.contains(&name.as_str());
            for scenario in scenarios.iter_mut().filter(|one| one.name == *name) {
                is_known = true;
                for threshold in thresholds {
                    let checked = threshold.get_ref().check(scenario);
                    checked.map_err(|message| self.invalid(threshold.span().start, message))?;
                    scenario.thresholds.push(threshold.get_ref().clone());
                }
            }
            if !is_known {
                let hint = did_you_mean(name, &built_in).unwrap_or_default();
                let message = format!("no scenario is named `{name}`, did you mean `{hint}`?");
                return Err(self.invalid(name_at, message));
            }
        }
        Ok(())
    }

    fn invalid(&self, at: usize, message: String) -> ScenarioError {
        ScenarioError::Invalid {
            origin: self.origin.clone(),
            line: line_at(&self.text, at),
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::built_in;

    fn parsed(text: &str) -> Result<MachineThresholds, ScenarioError> {
        MachineThresholds::parse(text.to_owned(), "m.toml".to_owned())
    }

    fn threshold(scenario: &str, case: &str) -> String {
        format!(
            "[[{scenario}]]\nname = \"a\"\ncase = \"{case}\"\nmetric = \"latency_ms.p50\"\nat_most = 600\n"
        )
    }

    #[test]
    fn each_scenario_gets_its_own() {
        let text = threshold("pods-150k", "etcd/stream") + &threshold("pods-80k", "kube/cached");
        let limits = parsed(&text).expect("two thresholds");
        let mut scenarios = [
            Scenario::named("pods-150k").expect("built in"),
            Scenario::named("growth").expect("built in"),
        ];
        let before = [0, 1].map(|n: usize| scenarios[n].thresholds.len());
        limits.add_to(&mut scenarios).expect("it fits");
        let after = [0, 1].map(|n: usize| scenarios[n].thresholds.len());
        assert_eq!(after, [before[0] + 1, before[1]]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let refused = |text: &str| {
            let mut scenarios = [Scenario::named("pods-150k").expect("built in")];
            let added = parsed(text).and_then(|limits| limits.add_to(&mut scenarios));
            added.expect_err("a mistake").to_string()
        };
        let first = threshold("pods-150k", "etcd/stream");
        for (text, expected) in [
            (
                first.clone() + &threshold("pods-15k", "etcd/stream"),
                "m.toml, line 6: no scenario is named `pods-15k`, did you mean `pods-150k`?",
            ),
            (
                first.clone() + &threshold("pods-150k", "etcd/steam"),
                "m.toml, line 6: threshold `a`: there is no case `etcd/steam`, did you mean `etcd/stream`?",
            ),
            (
                first + "[[pods-80k]]\nname = \"a\"\ncas = \"etcd/stream\"\n",
                "m.toml, line 8: unknown field `cas`",
            ),
        ] {
            let found = refused(&text);
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn those_of_the_kept_results_fit_their_scenarios() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/machine.toml");
        let limits = MachineThresholds::from_path(&path).expect("it is kept");
        limits.add_to(&mut built_in()).expect("they fit");
    }

    #[test]
    fn built_in_scenarios_have_none() {
        let is_of_a_machine = |spec: &&ThresholdSpec| {
            let metric = spec.metric.as_str();
            let in_time = ["latency_ms.", "first_chunk_ms.", "null_sink_ms."]
                .iter()
                .any(|prefix| metric.starts_with(prefix));
            let in_seconds = ["cpu_s", "cache_fill_s", "seed_s"]
                .iter()
                .any(|part| metric.contains(part));
            (in_time || in_seconds) && !spec.has_basis() && spec.source.is_none()
        };
        for scenario in built_in() {
            let found = scenario.thresholds.iter().find(is_of_a_machine);
            assert!(found.is_none(), "{}: {found:?}", scenario.name);
        }
    }
}
