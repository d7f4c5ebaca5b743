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
