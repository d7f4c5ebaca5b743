//! The text about the profiles of cases: where each flame graph is and which functions were on a
//! CPU most, or why there is none.

use serde::Serialize;

use crate::machine::percent;
use crate::quantity::Quantity;
use crate::result::{Case, CpuProfile, Profiler};

/// One profile as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileLine {
    /// The server and its case.
    pub name: String,
    /// The flame graph, as a path in the result folder; `None` where there is none.
    pub flame_graph: Option<String>,
    /// The profile's samples, profiler and hottest functions, or why it is missing. Names of
    /// functions are in backticks.
    pub about: String,
}

/// Returns the profiles of these cases; empty where none was requested.
pub fn lines<'a>(cases: impl Iterator<Item = &'a Case>) -> Vec<ProfileLine> {
    let profiles = cases.flat_map(|case| case.profiles.iter().map(move |profile| (case, profile)));
    let line = |(case, profile): (&Case, &CpuProfile)| ProfileLine {
        name: format!("{} in {}", profile.process, case.id()),
        flame_graph: profile.flame_graph(),
        about: about(profile),
    };
    profiles.map(line).collect()
}

/// Returns a profile as one line of text.
#[must_use]
pub fn text(line: &ProfileLine) -> String {
    let graph = line.flame_graph.as_ref();
    let graph = graph.map_or_else(String::new, |file| format!("{file}, "));
    format!("Profile of {}: {graph}{}", line.name, line.about)
}

fn about(profile: &CpuProfile) -> String {
    if let Some(reason) = &profile.missing {
        return format!("N/A: {reason}");
    }
    let by = match profile.profiler {
        Some(Profiler::Perf) => "perf",
        _ => "pprof",
    };
    let hottest = profile.hottest.iter();
    let hottest: Vec<String> = hottest
        .map(|hot| format!("`{}` {}", hot.function, percent(hot.part)))
        .collect();
    format!(
        "{} samples in {} by {by}; most in {}",
        Quantity::Count(profile.samples),
        Quantity::seconds(profile.sampled_s),
        hottest.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use workloads::strategy::Tier;

    use super::*;
    use crate::result::{HotFunction, Outcome};

    #[test]
    fn a_profile_has_its_graph_and_a_missing_one_its_reason() {
        let mut case = Case::new(
            "pods",
            "etcd-3.7.1",
            Tier::Etcd,
            "stream",
            Outcome::Measured,
        );
        assert!(lines([&case].into_iter()).is_empty());
        case.profiles = vec![
            CpuProfile {
                process: "etcd".to_owned(),
                profiler: Some(Profiler::Pprof),
                sampled_s: 4.0,
                samples: 412,
                hottest: vec![HotFunction {
                    function: "runtime.memmove".to_owned(),
                    part: 0.25,
                }],
                file: Some("profiles/pods-etcd.pb.gz".to_owned()),
                missing: None,
            },
            CpuProfile {
                process: "kube".to_owned(),
                missing: Some("there is no `perf`".to_owned()),
                ..CpuProfile::default()
            },
        ];
        let texts: Vec<String> = lines([&case].into_iter()).iter().map(text).collect();
        let expected = [
            "Profile of etcd in pods/etcd-3.7.1/etcd/stream: profiles/pods-etcd.svg, 412 samples in 4.00 s by pprof; most in `runtime.memmove` 25 %",
            "Profile of kube in pods/etcd-3.7.1/etcd/stream: N/A: there is no `perf`",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_profiled_case_is_not_ranked_and_one_whose_profiler_never_began_is() {
        let mut case = Case::new("pods", "etcd", Tier::Etcd, "stream", Outcome::Measured);
        case.valid = true;
        case.profiles = vec![CpuProfile {
            missing: Some("no pprof".to_owned()),
            ..CpuProfile::default()
        }];
        assert!(case.counts(), "nothing disturbed it");
        case.profiles[0].sampled_s = 2.0;
        assert!(!case.counts(), "even if the profile failed");
        assert!(case.refusal().starts_with("profiled"), "{}", case.refusal());
    }
}
