//! Files from other sources: scenarios, saved results, kubeconfigs.

use std::path::Path;

use kube_api::client::config::Context;
use report::result::Report;
use report::result::histogram_log::read_log;
use workloads::{Scenario, scenario};

use super::{refusal, texts};

/// Checks a scenario file: what is accepted is written as a file of the same scenario. What is
/// refused is refused with a line that the file has.
///
/// # Panics
/// When a rule is broken.
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

/// Checks `report.json`: what is accepted is written as a report that is the same.
///
/// # Panics
/// When a rule is broken.
pub fn report(bytes: &[u8]) {
    if let Ok(report) = serde_json::from_slice::<Report>(bytes) {
        let written = serde_json::to_vec(&report).expect("a report is JSON");
        let again: Report = serde_json::from_slice(&written).expect("what was written is accepted");
        assert_eq!(again, report);
    }
}

/// Checks `histograms.hlog`: read or refused, within memory that does not depend on what it claims.
///
/// # Panics
/// When the parser does.
pub fn histograms(bytes: &[u8]) {
    refusal(read_log(bytes));
}

/// Checks a kubeconfig without files of its own: its context is read or refused in one line.
///
/// # Panics
/// When a rule is broken.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // Named files are read: only the folder that does not exist may be named.
    if text.contains('/') {
        return;
    }
    if let Err(error) = Context::parse(text, "", Path::new("/nowhere/at/all/config")) {
        assert!(!error.to_string().trim().is_empty());
    }
}

/// Kubeconfigs with each kind of credentials.
pub fn kubeconfigs() -> Vec<Vec<u8>> {
    texts(&[
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {cluster: c, user: u, namespace: n}\nclusters:\n- name: c\n  cluster: {server: 'localhost:1', insecure-skip-tls-verify: true}\nusers:\n- name: u\n  user: {token: abc}\n",
        "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: x, certificate-authority-data: AAAA}}]\nusers: [{name: u, user: {username: a, password: b}}]\n",
        "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: x, tls-server-name: y, extensions: [{name: e, extension: {k: 1}}]}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io.v1, command: p, args: [a], env: [{name: n, value: v}], interactiveMode: Never, provideClusterInfo: true}}}]\n",
    ])
}
