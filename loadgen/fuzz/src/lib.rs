//! Every parser of untrusted bytes, as a function of bytes.
//!
//! A target panics when a parser does, and when what it found breaks a rule that holds for every
//! input: what is written again is the same, two decoders agree, a refusal is an error and nothing
//! else. Two programs drive the same functions:
//!
//! - `tests/corpora.rs`: the seeds, the inputs that once broke a rule (`corpora/NAME/`), and a few
//!   thousand mutations of both, in every test run
//! - `libfuzzer/`: libFuzzer with coverage, on the stable toolchain (`scripts/test fuzz`)
//!
//! In both an input that takes seconds is a failure, too ([`watchdog`], libFuzzer's `-timeout`).
//!
//! `tests/bad_requests.rs` sends nearly well-formed requests to both tiers.
//!
//! Targets by who feeds them: clients of the Kubernetes tier ([`text`], [`objects`]), servers that
//! are measured ([`messages`], [`mod@metrics`]), files ([`files`]), disks ([`log`]).

pub mod files;
pub mod log;
pub mod messages;
pub mod metrics;
pub mod mutation;
pub mod objects;
pub mod text;
pub mod watchdog;

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A parser and what must hold for it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name on the command line, and of its folder in `corpora/`.
    pub name: &'static str,
    /// Runs it. Panics when a rule is broken.
    pub run: fn(&[u8]),
    /// Well-formed inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets, in the order of their names.
pub const TARGETS: &[Target] = &[
    Target {
        name: "continue_token",
        run: text::continue_token,
        seeds: text::continue_tokens,
    },
    Target {
        name: "custom_resource",
        run: objects::custom_resource,
        seeds: objects::custom_resources,
    },
    Target {
        name: "envelope",
        run: objects::envelope,
        seeds: objects::envelopes,
    },
    Target {
        name: "field_selector",
        run: text::field_selector,
        seeds: text::field_selectors,
    },
    Target {
        name: "histograms",
        run: files::histograms,
        seeds: Vec::new,
    },
    Target {
        name: "kubeconfig",
        run: files::kubeconfig,
        seeds: files::kubeconfigs,
    },
    Target {
        name: "label_selector",
        run: text::label_selector,
        seeds: text::label_selectors,
    },
    Target {
        name: "list_options",
        run: text::list_options,
        seeds: text::list_queries,
    },
    Target {
        name: "list_validator",
        run: messages::list_validator,
        seeds: messages::list_responses,
    },
    Target {
        name: "log_records",
        run: log::records,
        seeds: log::payloads,
    },
    Target {
        name: "log_segment",
        run: log::segment,
        seeds: log::segments,
    },
    Target {
        name: "metrics",
        run: metrics::page,
        seeds: metrics::pages,
    },
    Target {
        name: "object_from_json",
        run: objects::from_json,
        seeds: objects::pods_as_json,
    },
    Target {
        name: "object_to_json",
        run: objects::to_json,
        seeds: objects::pods,
    },
    Target {
        name: "profile",
        run: metrics::profile,
        seeds: metrics::profiles,
    },
    Target {
        name: "report",
        run: files::report,
        seeds: Vec::new,
    },
    Target {
        name: "scalars",
        run: text::scalars,
        seeds: text::scalar_texts,
    },
    Target {
        name: "scenario",
        run: files::scenario,
        seeds: files::scenarios,
    },
    Target {
        name: "shard_selector",
        run: text::shard_selector,
        seeds: text::shard_selectors,
    },
];

impl Target {
    /// Returns the folder of the inputs that once broke a rule.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpora")
            .join(self.name)
    }

    /// Returns what it begins with: its seeds, and the inputs in its folder.
    ///
    /// # Panics
    /// When a file there cannot be read, or there is nothing: it would try noise only.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let mut corpus = (self.seeds)();
        let files = fs::read_dir(self.folder()).into_iter().flatten();
        let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
        // The order in which a file system lists them is its own.
        paths.sort();
        for path in paths {
            corpus.push(fs::read(&path).expect("a file of the corpus is readable"));
        }
        assert!(
            !corpus.is_empty(),
            "{} has neither seeds nor corpus",
            self.name
        );
        corpus
    }

    /// Writes what it begins with into a folder of its name, for libFuzzer.
    ///
    /// # Errors
    /// When the folder or a file cannot be written.
    pub fn write_corpus(&self, folder: &Path) -> io::Result<()> {
        let folder = folder.join(self.name);
        fs::create_dir_all(&folder)?;
        for (i, input) in self.corpus().iter().enumerate() {
            fs::write(folder.join(format!("seed-{i}")), input)?;
        }
        Ok(())
    }
}

/// Returns the target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Copies texts to inputs.
fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Asserts that a refusal says why, and goes on.
fn refusal<T, E: std::fmt::Display>(result: Result<T, E>) {
    if let Err(error) = result {
        assert!(
            !error.to_string().trim().is_empty(),
            "refused without a reason"
        );
    }
}
