//! The names of targets in other programs. They are the same from run to run, unlike addresses and
//! versions, with which a history would start anew each time.

use crate::result::{Report, targets_of};

/// The names of a result's targets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TargetNames(Vec<(String, String)>);

impl TargetNames {
    /// Returns the names of all targets of a result: `bench`, `etcd`, `etcd-fsync`, `endpoint`.
    /// Targets whose names would be equal keep their versions. If they still are equal, numbers are
    /// appended.
    pub(super) fn of(report: &Report) -> Self {
        let targets = targets_of(&report.cases);
        let plain = |target: &str| without_version(&without_address(target));
        let mut names: Vec<(String, String)> = Vec::new();
        for target in &targets {
            let is_alone = targets
                .iter()
                .filter(|it| plain(it) == plain(target))
                .count()
                == 1;
            let name = match is_alone {
                true => plain(target),
                false => without_address(target),
            };
            let is_taken = |name: &str| names.iter().any(|(_, taken)| taken == name);
            let mut numbered = name.clone();
            for number in 2..=targets.len() {
                if !is_taken(&numbered) {
                    break;
                }
                numbered = format!("{name}-{number}");
            }
            names.push(((*target).to_owned(), numbered));
        }
        Self(names)
    }

    /// Returns the name of a target of the result.
    pub(super) fn get<'a>(&'a self, target: &'a str) -> &'a str {
        let named = self.0.iter().find(|(known, _)| known == target);
        named.map_or(target, |(_, name)| name)
    }
}

/// Returns a target's name without its host, path or kubeconfig context.
fn without_address(target: &str) -> String {
    if target.starts_with("http://") || target.starts_with("https://") {
        return "endpoint".to_owned();
    }
    match target.split_once(':') {
        Some(("kube" | "kubeconfig", _)) => "kube".to_owned(),
        Some((kind, path)) => {
            let file = path.rsplit('/').next().unwrap_or(path);
            format!("{kind}:{file}")
        }
        None => target.to_owned(),
    }
}

/// Returns `etcd-fsync` for `etcd-3.7.1-fsync`.
fn without_version(name: &str) -> String {
    let Some((kind, version)) = name.split_once("etcd-") else {
        return name.to_owned();
    };
    if !version.starts_with(|c: char| c.is_ascii_digit()) {
        return name.to_owned();
    }
    let fsync = if version.ends_with("-fsync") {
        "-fsync"
    } else {
        ""
    };
    format!("{kind}etcd{fsync}")
}

#[cfg(test)]
mod tests {
    use workloads::strategy::Tier;

    use super::*;
    use crate::result::{Case, Outcome, SCHEMA_VERSION};

    fn names(targets: &[&str]) -> Vec<String> {
        let case =
            |target: &&str| Case::new("pods", target, Tier::Etcd, "stream", Outcome::Measured);
        let report = serde_json::from_value::<Report>(serde_json::json!({
            "schema_version": SCHEMA_VERSION,
            "scenario": "pods",
            "started": "2026-01-02T03:04:05Z",
            "elapsed_s": 1.0,
            "interrupted": false,
            "environment": crate::result::Environment::default(),
            "data_sets": [],
            "cases": targets.iter().map(case).collect::<Vec<_>>(),
        }));
        let names = TargetNames::of(&report.expect("a report"));
        let named = targets.iter().map(|target| names.get(target).to_owned());
        named.collect()
    }

    #[test]
    fn a_name_holds_no_version_and_no_address() {
        assert_eq!(
            names(&[
                "bench",
                "etcd-3.7.1",
                "etcd-3.7.1-fsync",
                "bench+etcd-3.8.0-rc.1"
            ]),
            ["bench", "etcd", "etcd-fsync", "bench+etcd"]
        );
        assert_eq!(
            names(&[
                "https://10.0.0.1:2379,https://10.0.0.2:2379",
                "kube:https://k8s:6443"
            ]),
            ["endpoint", "kube"]
        );
        assert_eq!(names(&["kubeconfig:admin@10.0.0.1"]), ["kube"]);
        assert_eq!(
            names(&["bench:/home/somebody/base.bin"]),
            ["bench:base.bin"]
        );
    }

    #[test]
    fn two_targets_are_never_called_alike() {
        assert_eq!(
            names(&["bench", "etcd-3.6.16", "etcd-3.7.3"]),
            ["bench", "etcd-3.6.16", "etcd-3.7.3"]
        );
        assert_eq!(
            names(&["http://a:1", "http://b:1", "http://c:1"]),
            ["endpoint", "endpoint-2", "endpoint-3"]
        );
        assert_eq!(
            names(&["etcd:/a/etcd", "etcd:/b/etcd"]),
            ["etcd:etcd", "etcd:etcd-2"]
        );
    }
}
