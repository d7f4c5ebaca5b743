//! Flame graphs of a result's profiles: draws the saved stacks as SVG.
//!
//! - [`stacks`]: stacks, each with its number of samples; `pprof`: reads the stacks of a Go
//!   server's profile

mod pprof;
pub mod stacks;

use std::fs;
use std::io;
use std::path::Path;

use inferno::flamegraph::{Options, from_lines};

use crate::result::{Case, CpuProfile, Profiler, Report};
use stacks::{Stacks, StacksError};

/// The maximal size of a flame graph in bytes, so that a page with a dozen of them stays small.
const LARGEST: usize = 150_000;
/// The least parts of the samples, in percent, below which functions are not drawn. The first one
/// that makes the graph small enough is used.
const NARROWEST: [f64; 5] = [0.1, 0.3, 1.0, 3.0, 10.0];

/// Why there is no flame graph.
#[derive(Debug, thiserror::Error)]
pub enum FlameGraphError {
    /// The stacks cannot be read.
    #[error(transparent)]
    Stacks(#[from] StacksError),
    /// A file cannot be read or written, or the graph cannot be drawn.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The stacks are too deep, so that the graph is too large.
    #[error("{found} bytes, and {LARGEST} are the limit")]
    TooLarge {
        /// The size of the graph with only the widest functions.
        found: usize,
    },
}

/// Draws the flame graph of every profile of a report, next to its stacks in the result's folder.
/// Profiles whose stacks are missing are skipped, since a folder may be saved without them. Returns
/// what could not be drawn, each with the reason.
pub(crate) fn draw_all(report: &Report, folder: &Path) -> Vec<String> {
    let mut failures = Vec::new();
    for case in &report.cases {
        for profile in &case.profiles {
            let (Some(file), Some(graph)) = (&profile.file, profile.flame_graph()) else {
                continue;
            };
            let stacks = folder.join(file);
            if !stacks.exists() {
                continue;
            }
            if let Err(error) = draw_file(case, profile, &stacks, &folder.join(graph)) {
                failures.push(format!("flame graph of {file}: {error}"));
            }
        }
    }
    failures
}

fn draw_file(
    case: &Case,
    profile: &CpuProfile,
    stacks: &Path,
    graph: &Path,
) -> Result<(), FlameGraphError> {
    let raw = fs::read(stacks)?;
    let stacks = match profile.profiler {
        Some(Profiler::Perf) => Stacks::from_folded(&raw)?,
        _ => Stacks::from_pprof(&raw)?,
    };
    let title = format!("{}: CPU time of {}", case.id(), profile.process);
    Ok(fs::write(graph, svg(&stacks, &title)?)?)
}

/// Returns the flame graph of stacks. Callers are below their callees, and the width of a function
/// is the part of the samples that have it on their stack. The graph contains a script: a click
/// enlarges a function, and Ctrl-F searches functions by name.
///
/// # Errors
/// [`FlameGraphError`] without samples, and when the graph is larger than 150,000 bytes even with
/// only the widest functions.
pub fn svg(stacks: &Stacks, title: &str) -> Result<String, FlameGraphError> {
    let lines: Vec<String> = stacks.lines().collect();
    let mut found = 0;
    for narrowest in NARROWEST {
        let mut options = Options::default();
        title.clone_into(&mut options.title);
        options.min_width = narrowest;
        // The same stacks yield the same bytes.
        options.deterministic = true;
        let mut svg = Vec::new();
        from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
        found = svg.len();
        if found <= LARGEST {
            return String::from_utf8(svg)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error).into());
        }
    }
    Err(FlameGraphError::TooLarge { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_names_its_functions_and_is_the_same_each_time() {
        let stacks =
            Stacks::parse("main;serve;encode 30\nmain;serve;write <&> 70\n").expect("stacks");
        let drawn = svg(&stacks, "pods/bench/etcd/stream: CPU time of etcd").expect("a graph");
        for part in [
            "pods/bench/etcd/stream",
            "encode (30 samples, 30.00%)",
            "write &lt;&amp;&gt;",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert_eq!(svg(&stacks, "x").ok(), svg(&stacks, "x").ok());
    }

    #[test]
    fn a_graph_of_many_functions_is_small_all_the_same() {
        let wide: String = (0..5_000)
            .map(|n| format!("main;function_{n} 1\n"))
            .collect();
        let wide = format!("{wide}main;hot 5000\n");
        let drawn = svg(&Stacks::parse(&wide).expect("stacks"), "wide").expect("a graph");
        assert!(drawn.len() <= LARGEST, "{}", drawn.len());
        assert!(drawn.contains("hot (5,000 samples, 50.00%)"), "{drawn}");
        let deep: Vec<String> = (0..5_000).map(|n| format!("function_{n}")).collect();
        let deep = Stacks::parse(&format!("{} 1\n", deep.join(";"))).expect("stacks");
        let refused = svg(&deep, "deep").expect_err("every function is as wide as all");
        assert!(matches!(refused, FlameGraphError::TooLarge { found } if found > LARGEST));
    }

    #[test]
    fn stacks_without_a_sample_make_no_graph() {
        assert!(svg(&Stacks::default(), "none").is_err());
    }
}
