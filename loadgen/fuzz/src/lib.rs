//! Every parser of untrusted bytes, as a function of bytes.
//!
//! A target panics if its parser panics, or if the result breaks a rule that holds for every input:
//! writing it again gives the same result, two decoders agree, invalid input only causes an error.
//! Two programs run the same functions:
//!
//! - `tests/corpora.rs`: the seeds, the inputs that have broken a rule before (`corpora/NAME/`),
//!   and a few thousand mutations of both, in every test run
//! - `libfuzzer/`: libFuzzer with coverage, on the stable toolchain (`scripts/test fuzz`)
//!
//! In both, an input that takes seconds is also a failure ([`watchdog`], libFuzzer's `-timeout`).
//!
//! `tests/bad_requests.rs` sends nearly well-formed requests to both tiers.
//!
//! Targets by the source of their input: clients of the Kubernetes tier ([`text`], [`objects`]),
//! measured servers ([`messages`], [`mod@metrics`]), files ([`files`]), disks ([`log`]).
//! [`mutation`] has the mutations.

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

/// A parser and the rules that must hold for it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The target's name on the command line, which is also that of its folder in `corpora/`.
    pub name: &'static str,
    /// Runs the target on an input. Panics if a rule is broken.
    pub run: fn(&[u8]),
    /// Returns the well-formed inputs to start with.
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
    /// Returns the folder of the inputs that have broken a rule before.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpora")
            .join(self.name)
    }

    /// Returns the initial inputs: the target's seeds, and the inputs in its folder.
    ///
    /// # Panics
    /// If a file in the folder cannot be read, or if there are no inputs: only noise would be
    /// tried.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let mut corpus = (self.seeds)();
        let files = fs::read_dir(self.folder()).into_iter().flatten();
        let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
        // The order of a directory listing is undefined.
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

    /// Writes the initial inputs into a folder with the target's name, for libFuzzer.
    ///
    /// # Errors
    /// If the folder or a file cannot be written.
    pub fn write_corpus(&self, folder: &Path) -> io::Result<()> {
        let folder = folder.join(self.name);
        fs::create_dir_all(&folder)?;
        for (i, input) in self.corpus().iter().enumerate() {
            fs::write(folder.join(format!("seed-{i}")), input)?;
        }
        Ok(())
    }
}

/// Returns the target with this name, if any.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Returns texts as inputs.
fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Asserts that an error, if there is one, has a message.
fn refusal<T, E: std::fmt::Display>(result: Result<T, E>) {
    if let Err(error) = result {
        assert!(
            !error.to_string().trim().is_empty(),
            "refused without a reason"
        );
    }
}
