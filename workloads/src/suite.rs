//! Suites: several scenarios that are run one after the other and judged together.
//!
//! A suite is a TOML file. Like the built-in scenarios, the built-in suites are part of the
//! program.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::did_you_mean::did_you_mean;
use crate::scenario::{check_name, duration_text, is_file, line_at};
use crate::strategy::Strategy;

const BUILT_IN: [(&str, &str); 2] = [
    ("quick", include_str!("../suites/quick.toml")),
    ("speed", include_str!("../suites/speed.toml")),
];

/// Scenarios that are run one after the other and judged together.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Name on the command line.
    pub name: String,
    /// Summary in one line, for the list of suites.
    pub summary: String,
    /// The runs, in their order; never empty.
    pub runs: Vec<SuiteRun>,
}

/// One scenario of a suite, and the parts of it that are run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteRun {
    /// Name of a built-in scenario, or path of a scenario file.
    pub scenario: String,
    /// The strategies to run; all of the scenario's if empty.
    #[serde(default)]
    pub strategies: Vec<Strategy>,
    /// Sizes that replace the scenario's.
    #[serde(default)]
    pub size: Size,
    /// Sizes of a trial run (`--small`), which replace those of [`Self::size`] where given.
    #[serde(default)]
    pub small: Size,
    /// Whether only the first target is measured.
    #[serde(default)]
    pub first_target_only: bool,
    /// Whether the cases write. Targets that sync each write are measured only in runs that write:
    /// without writes they are the same as targets that do not sync.
    #[serde(default)]
    pub writes: bool,
}

/// The size of a scenario's run; `None` keeps the scenario's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Objects of every data set.
    #[serde(default)]
    pub objects: Option<NonZeroU64>,
    /// Measured lists per case.
    #[serde(default)]
    pub repeats: Option<NonZeroU32>,
    /// Duration of every case of small requests.
    #[serde(default, with = "duration_text::option")]
    pub duration: Option<Duration>,
}

/// An error of a suite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// No built-in suite has this name.
    #[error("unknown suite `{name}`, did you mean `{suggestion}`? (`loadgen suite` lists them)")]
    Unknown {
        /// The given name.
        name: String,
        /// The most similar built-in name.
        suggestion: &'static str,
    },
    /// The file could not be read.
    #[error("suite {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a suite.
    #[error("suite {origin}, line {line}: {message}")]
    Invalid {
        /// File or built-in name.
        origin: String,
        /// Line of the offending value, from 1.
        line: usize,
        /// The error.
        message: String,
    },
}

/// The content of a suite file, with spans for the line numbers of errors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    summary: String,
    #[serde(default)]
    run: Vec<SuiteRun>,
}

impl Suite {
    /// Returns the built-in suite of this name. A name that ends in `.toml` or contains a slash is
    /// the path of a file to read.
    ///
    /// # Errors
    /// [`SuiteError`] with a suggestion for an unknown name, or with the line for an invalid file.
    pub fn load(name: &str) -> Result<Self, SuiteError> {
        if is_file(name) {
            return Self::from_path(Path::new(name));
        }
        let found = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
        let (origin, text) = found.ok_or_else(|| SuiteError::Unknown {
            name: name.to_owned(),
            suggestion: did_you_mean(name, &BUILT_IN.map(|(name, _)| name))
                .unwrap_or(BUILT_IN[0].0),
        })?;
        Self::parse(text, origin)
    }

    /// Reads a suite file. Paths of scenario files in it are relative to its folder.
    fn from_path(path: &Path) -> Result<Self, SuiteError> {
        let text = std::fs::read_to_string(path).map_err(|source| SuiteError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut suite = Self::parse(&text, &path.display().to_string())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for run in suite.runs.iter_mut().filter(|run| is_file(&run.scenario)) {
            run.scenario = folder.join(&run.scenario).display().to_string();
        }
        Ok(suite)
    }

    /// Parses a suite; `origin` names it in errors. Does not check that its scenarios exist.
    ///
    /// # Errors
    /// [`SuiteError::Invalid`] with the line of the unknown or missing value.
    pub fn parse(text: &str, origin: &str) -> Result<Self, SuiteError> {
        let invalid = |start: usize, message: String| SuiteError::Invalid {
            origin: origin.to_owned(),
            line: line_at(text, start),
            message,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            invalid(start, error.message().to_owned())
        })?;
        check_name(file.name.get_ref())
            .map_err(|message| invalid(file.name.span().start, message))?;
        if file.run.is_empty() {
            return Err(invalid(0, "at least one [[run]] is needed".to_owned()));
        }
        Ok(Self {
            name: file.name.into_inner(),
            summary: file.summary,
            runs: file.run,
        })
    }
}

impl SuiteRun {
    /// Returns how much of the scenario is run.
    #[must_use]
    pub fn size(&self, small: bool) -> Size {
        let Self {
            size,
            small: of_small,
            ..
        } = self;
        match small {
            false => *size,
            true => Size {
                objects: of_small.objects.or(size.objects),
                repeats: of_small.repeats.or(size.repeats),
                duration: of_small.duration.or(size.duration),
            },
        }
    }
}

/// Returns the built-in suites.
#[must_use]
pub fn built_in() -> Vec<Suite> {
    BUILT_IN
        .iter()
        .map(|(origin, text)| Suite::parse(text, origin).expect("built-in suites are tested"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{MachineThresholds, Overrides, Scenario};

    #[test]
    fn every_run_of_a_built_in_suite_fits_its_scenario() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/machine.toml");
        let machine = MachineThresholds::from_path(&path).expect("it is kept");
        for (origin, text) in BUILT_IN {
            let suite = Suite::parse(text, origin).expect("a suite");
            assert_eq!(suite.name, origin);
            for run in &suite.runs {
                for small in [false, true] {
                    let mut scenario = Scenario::named(&run.scenario).expect("a scenario");
                    let Size {
                        objects,
                        repeats,
                        duration,
                    } = run.size(small);
                    let overrides = Overrides {
                        objects,
                        repeats,
                        duration,
                        strategies: (!run.strategies.is_empty()).then(|| run.strategies.clone()),
                        ..Overrides::default()
                    };
                    // All limits on what these runs measure are of one machine.
                    if ["small-requests", "stream-shapes"].contains(&run.scenario.as_str()) {
                        assert!(machine.add_to(&mut scenario).expect("they fit"));
                    }
                    scenario.override_with(&overrides).expect("it applies");
                    // Most limits apply only to the scenario's own number of objects.
                    assert!(
                        small || !scenario.thresholds.is_empty(),
                        "{origin}: {} has something to judge",
                        run.scenario
                    );
                }
            }
        }
    }

    #[test]
    fn a_trial_run_keeps_what_it_does_not_change() {
        let text = "name = \"mine\"\nsummary = \"\"\n[[run]]\nscenario = \"watchers\"\n\
             size = { repeats = 7, duration = \"9s\" }\nsmall = { objects = 50, repeats = 2 }\n";
        let run = Suite::parse(text, "mine").expect("a suite").runs.remove(0);
        let small = run.size(true);
        assert_eq!(small.objects.map(NonZeroU64::get), Some(50));
        assert_eq!(small.repeats.map(NonZeroU32::get), Some(2));
        assert_eq!(small.duration, Some(Duration::from_secs(9)));
        assert_eq!(run.size(false), run.size);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let parsed = |text: &str| Suite::parse(text, "mine.toml").map_err(|e| e.to_string());
        for (text, expected) in [
            (
                "name = \"mine\"\nsummary = \"\"\n",
                "suite mine.toml, line 1: at least one [[run]] is needed",
            ),
            (
                "name = \"my own\"\nsummary = \"\"\n[[run]]\nscenario = \"watchers\"\n",
                "suite mine.toml, line 1: name `my own` may hold only letters",
            ),
            (
                "name = \"mine\"\nsummary = \"\"\n[[run]]\nscenario = \"watchers\"\nsizes = {}\n",
                "suite mine.toml, line 5: unknown field `sizes`",
            ),
            (
                "name = \"mine\"\nsummary = \"\"\n[[run]]\nscenario = \"a\"\nstrategies = [\"steam\"]\n",
                "did you mean `stream`",
            ),
            (
                "name = \"mine\"\nsummary = \"\"\n[[run]]\nscenario = \"a\"\nsize = { objects = 0 }\n",
                "suite mine.toml, line 5: ",
            ),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        let error = Suite::load("sped").expect_err("no such suite").to_string();
        assert!(error.contains("did you mean `speed`"), "{error}");
    }
}
