//! Applies the overrides of the command line to a scenario.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::case::check_rate;
use super::{
    CaseSpec, Cases, DataSetSpec, Kind, Network, Saturate, Scenario, ScenarioError, ThresholdSpec,
};
use crate::did_you_mean::did_you_mean;
use crate::strategy::{Driver, Strategy};

/// Command-line overrides of a scenario; `None` keeps the value of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `--objects`, of every data set.
    pub objects: Option<NonZeroU64>,
    /// `--object-size` in bytes, of every data set of ConfigMaps or raw values; pods have a fixed
    /// size.
    pub object_size: Option<NonZeroU64>,
    /// `--seed`, of every data set.
    pub seed: Option<u64>,
    /// `--repeats`.
    pub repeats: Option<NonZeroU32>,
    /// `--clients`.
    pub clients: Option<NonZeroU32>,
    /// `--rate`, of every case of small requests.
    pub rate: Option<f64>,
    /// `--duration`, of every case of small requests.
    pub duration: Option<Duration>,
    /// `loadgen saturate`: the search for the highest rate, which is run for each case of small
    /// requests, and of loads that can be searched ([`LoadsSpec::no_search`](super::LoadsSpec)).
    /// Other cases are left out.
    pub saturate: Option<Saturate>,
    /// `--strategies`: cases to keep or add, in this order, on each tier that has them.
    pub strategies: Option<Vec<Strategy>>,
    /// `--rtt`, `--bandwidth`, `--client-read-rate`: the network of every case.
    pub network: Option<Network>,
    /// `--cases`: cases of several loads to keep, by name; all other cases are removed.
    pub cases: Option<Vec<String>>,
}

impl Scenario {
    /// Requests JSON instead of protobuf in the cases of the Kubernetes tier that support it,
    /// because the listed resource is served in JSON only. Removes cases that become equal to
    /// another.
    pub fn ask_for_json(&mut self) {
        self.cases.ask_for_json();
    }

    /// Applies the overrides of the command line.
    ///
    /// # Errors
    /// [`ScenarioError::Override`] when an override applies to nothing (a size for pods, a strategy
    /// that no tier has) or makes the scenario invalid.
    pub fn override_with(&mut self, overrides: &Overrides) -> Result<(), ScenarioError> {
        let given = self.data_sets.clone();
        self.apply(overrides)
            .map_err(|message| ScenarioError::Override {
                scenario: self.name.clone(),
                message,
            })?;
        // A threshold applies to the scenario's own case. With other clients or another rate, the
        // case is a different one.
        if overrides.clients.is_some() || overrides.rate.is_some() {
            self.thresholds.clear();
        }
        // Most limits depend on the number and the size of objects.
        let is_as_given = |(now, given): (&DataSetSpec, &DataSetSpec)| {
            let size = |spec: &DataSetSpec| (spec.objects, spec.size_table());
            size(now) == size(given)
        };
        if !self.data_sets.iter().zip(&given).all(is_as_given) {
            self.thresholds.retain(ThresholdSpec::is_of_any_size);
        }
        self.drop_thresholds_of_missing_cases();
        Ok(())
    }

    /// Applies all overrides in a fixed order; each is applied to the result of those before it.
    fn apply(&mut self, overrides: &Overrides) -> Result<(), String> {
        self.override_data_sets(overrides)?;
        self.select_cases(overrides)?;
        self.override_arrivals_of_cases(overrides)?;
        if let Some(saturate) = overrides.saturate {
            self.cases.searched(saturate);
            self.search_loads(saturate)?;
            self.thresholds.clear();
        }
        self.override_network(overrides)?;
        check_rate(overrides.rate)?;
        self.rate = overrides.rate.or(self.rate);
        self.duration = overrides.duration.unwrap_or(self.duration);
        for case in &mut self.loads {
            case.duration = case.duration.filter(|_| overrides.duration.is_none());
        }
        self.loads.iter().try_for_each(|c| c.check(self.duration))?;
        self.cases.set_loads(&self.loads);
        self.cases.without_doubles();
        self.check_searches()
    }

    /// Gives each case of loads that can be searched a search for its highest rate, and removes the
    /// others.
    ///
    /// # Errors
    /// The reasons of all cases if nothing is left to search.
    fn search_loads(&mut self, saturate: Saturate) -> Result<(), String> {
        let mut refused = Vec::new();
        self.loads.retain_mut(|case| {
            case.saturate = Some(saturate);
            let why = case.no_search();
            refused.extend(why.map(|why| format!("`{}`: {why}", case.name)));
            why.is_none()
        });
        let is_empty = self.loads.is_empty() && self.cases.all().next().is_none();
        match is_empty && !refused.is_empty() {
            true => Err(format!(
                "no case can be searched for its highest rate: {}",
                refused.join("; ")
            )),
            false => Ok(()),
        }
    }

    fn override_data_sets(&mut self, overrides: &Overrides) -> Result<(), String> {
        let mut sized = false;
        for spec in &mut self.data_sets {
            spec.objects = overrides.objects.unwrap_or(spec.objects);
            spec.seed = overrides.seed.unwrap_or(spec.seed);
            if let (Some(size), Kind::ConfigMaps | Kind::Raw) = (overrides.object_size, spec.kind) {
                spec.object_size = Some(size);
                spec.object_sizes = None;
                sized = true;
            }
        }
        if overrides.object_size.is_some() && !sized {
            return Err("--object-size does not apply: pods have a size of their own".to_owned());
        }
        self.data_sets.iter().try_for_each(DataSetSpec::check)
    }

    /// Keeps the requested cases, and sets their repeats and clients.
    fn select_cases(&mut self, overrides: &Overrides) -> Result<(), String> {
        if let Some(repeats) = overrides.repeats {
            self.repeats = repeats.get();
            for case in self.cases.all_mut() {
                case.repeats = None;
            }
        }
        if let Some(strategies) = &overrides.strategies {
            let cases = self.cases.only(strategies);
            cases.check()?;
            self.cases = cases;
            self.loads.clear();
        }
        if let Some(names) = &overrides.cases {
            self.only_cases(names)?;
        }
        if let Some(clients) = overrides.clients {
            self.clients = clients.get();
            for case in self.cases.all_mut() {
                case.clients = None;
            }
        }
        Ok(())
    }

    /// Removes the rate and the duration of cases if the command line gives its own.
    fn override_arrivals_of_cases(&mut self, overrides: &Overrides) -> Result<(), String> {
        let is_overridden = overrides.rate.is_some() || overrides.duration.is_some();
        let takes_either = |case: &CaseSpec| match case.strategy.driver() {
            Driver::Requests | Driver::ShardedWatch => true,
            Driver::Loads => overrides.rate.is_none(),
            _ => false,
        };
        if is_overridden && !self.cases.all().any(|(_, case)| takes_either(case)) {
            let message = "--rate and --duration are for cases of small requests (`get` and `put`) and for `watch-sharded:N`; --duration also for cases of several loads";
            return Err(message.to_owned());
        }
        for case in self.cases.all_mut() {
            if overrides.rate.is_some() {
                case.rate = None;
                case.arrivals = None;
            }
            case.duration = case.duration.filter(|_| overrides.duration.is_none());
        }
        Ok(())
    }

    fn override_network(&mut self, overrides: &Overrides) -> Result<(), String> {
        let Some(network) = overrides.network else {
            return Ok(());
        };
        network.check()?;
        for case in &mut self.loads {
            case.network = Some(network);
        }
        for case in self.cases.all_mut() {
            case.network = Some(network);
            // The baseline would not pass through the emulated network.
            case.baseline = None;
        }
        self.thresholds.clear();
        Ok(())
    }

    /// Keeps only the cases with these names.
    fn only_cases(&mut self, names: &[String]) -> Result<(), String> {
        let known: Vec<&str> = self.loads.iter().map(|case| case.name.as_str()).collect();
        for name in names {
            if !known.contains(&name.as_str()) {
                return Err(match did_you_mean(name, &known) {
                    Some(suggestion) => {
                        format!("there is no case `{name}`, did you mean `{suggestion}`?")
                    }
                    None => format!(
                        "there is no case `{name}`: this scenario has cases of one strategy each, which --strategies selects"
                    ),
                });
            }
        }
        self.loads.retain(|case| names.contains(&case.name));
        self.cases = Cases::default();
        self.cases.set_loads(&self.loads);
        Ok(())
    }

    /// Checks that the trials of every search are long enough. Cases of loads have checked their
    /// own.
    fn check_searches(&self) -> Result<(), String> {
        let cases = self.cases.all().filter(|(_, case)| case.loads.is_none());
        let searches = cases.filter_map(|(_, case)| Some((case.saturate?, case.duration)));
        for (saturate, duration) in searches {
            saturate.check(duration.unwrap_or(self.duration))?;
        }
        match self.cases.all().next() {
            Some(_) => Ok(()),
            None => Err(
                "there is no case to search for a rate of: none of small requests (`get`, `put`), and none of loads of which the first measured one is of small requests"
                    .to_owned(),
            ),
        }
    }

    /// Drops the thresholds of cases that the command line has removed.
    fn drop_thresholds_of_missing_cases(&mut self) {
        let thresholds = std::mem::take(&mut self.thresholds);
        self.thresholds = thresholds
            .into_iter()
            .filter(|threshold| threshold.check(self).is_ok())
            .collect();
    }
}
