//! Fuzz targets for files: scenarios, saved results, kubeconfigs.

use std::path::Path;

use kube_api::client::config::Context;
use report::result::Report;
use report::result::histogram_log::read_log;
use workloads::{Scenario, scenario};

use super::{refusal, texts};

/// Checks a scenario file: an accepted scenario is written as a file of the same scenario. The
/// error of a refused one has a line number within the file.
///
/// # Panics
/// If a rule is broken.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Scenario::parse(text, "fuzzed") {
        Ok(scenario) => {
            let written = scenario.to_toml();
            let again = Scenario::parse(&written, "written")
                .unwrap_or_else(|error| panic!("was written and is refused: {error}\n{written}"));
            assert_eq!(again, scenario, "{written}");
        }
        Err(scenario::ScenarioError::Invalid { line, message, .. }) => {
            assert!(line <= text.lines().count() + 1, "{message}: line {line}");
            assert!(!message.trim().is_empty());
        }
        Err(_) => {}
    }
}

/// Returns the built-in scenarios.
pub fn scenarios() -> Vec<Vec<u8>> {
    let all = scenario::built_in().into_iter();
    let texts = all.filter_map(|scenario| scenario::text_of(&scenario.name).ok());
    texts.map(|text| text.as_bytes().to_vec()).collect()
}

/// Checks `report.json`: an accepted report is written as the same report.
///
/// # Panics
/// If a rule is broken.
pub fn report(bytes: &[u8]) {
    if let Ok(report) = serde_json::from_slice::<Report>(bytes) {
        let written = serde_json::to_vec(&report).expect("a report is JSON");
        let again: Report = serde_json::from_slice(&written).expect("what was written is accepted");
        assert_eq!(again, report);
    }
}

/// Checks `histograms.hlog`: it is read or refused, with memory that does not depend on the sizes
/// that it claims.
///
/// # Panics
/// If the parser panics.
pub fn histograms(bytes: &[u8]) {
    refusal(read_log(bytes));
}

/// Checks a kubeconfig that names no files: its context is read or refused with one line.
///
/// # Panics
/// If a rule is broken.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // Files that a kubeconfig names are read, so paths other than the folder that does not exist
    // are excluded.
    if text.contains('/') {
        return;
    }
    if let Err(error) = Context::parse(text, "", Path::new("/nowhere/at/all/config")) {
        assert!(!error.to_string().trim().is_empty());
    }
}

/// Returns kubeconfigs with each kind of credentials.
pub fn kubeconfigs() -> Vec<Vec<u8>> {
    texts(&[
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {cluster: c, user: u, namespace: n}\nclusters:\n- name: c\n  cluster: {server: 'localhost:1', insecure-skip-tls-verify: true}\nusers:\n- name: u\n  user: {token: abc}\n",
        "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: x, certificate-authority-data: AAAA}}]\nusers: [{name: u, user: {username: a, password: b}}]\n",
        "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: x, tls-server-name: y, extensions: [{name: e, extension: {k: 1}}]}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io.v1, command: p, args: [a], env: [{name: n, value: v}], interactiveMode: Never, provideClusterInfo: true}}}]\n",
    ])
}
