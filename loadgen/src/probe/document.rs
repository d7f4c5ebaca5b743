//! The findings of a probe, as text for people and as JSON for programs.

use std::fmt;

use serde::Serialize;

use super::finding::{Finding, RuleVerdict};

/// The findings of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Document {
    /// The API that was probed.
    pub api: Api,
    /// The version that the server reports.
    pub version: String,
    /// Whether rules that write were tried.
    pub wrote: bool,
    /// The number of rules that are honoured, lacking, broken and not tried.
    pub counts: Counts,
    /// Every rule, in the order in which they are listed.
    pub rules: Vec<Finding>,
}

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// etcd's API v3.
    Etcd,
    /// A Kubernetes API.
    Kubernetes,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Etcd => "etcd",
            Self::Kubernetes => "Kubernetes API",
        })
    }
}

/// The number of rules by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Rules that are honoured.
    pub honoured: usize,
    /// Rules whose feature is missing.
    pub lacking: usize,
    /// Rules that are broken.
    pub broken: usize,
    /// Rules that were not tried.
    pub not_tried: usize,
}

impl Document {
    pub(super) fn new(api: Api, version: &str, wrote: bool, rules: Vec<Finding>) -> Self {
        let count = |verdict| rules.iter().filter(|f| f.verdict == verdict).count();
        Self {
            api,
            version: version.to_owned(),
            wrote,
            counts: Counts {
                honoured: count(RuleVerdict::Honoured),
                lacking: count(RuleVerdict::Lacking),
                broken: count(RuleVerdict::Broken),
                not_tried: count(RuleVerdict::NotTried),
            },
            rules,
        }
    }
}

/// Writes a line for each rule that was tried, the contract and the request of broken rules, and
/// the counts.
impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.rules.iter().map(|f| f.rule.len()).max().unwrap_or(0);
        let tried = |finding: &&Finding| finding.verdict != RuleVerdict::NotTried;
        for finding in self.rules.iter().filter(tried) {
            let state = match finding.verdict {
                RuleVerdict::Honoured => "ok",
                RuleVerdict::Lacking => "lacks",
                RuleVerdict::Broken => "BROKEN",
                RuleVerdict::NotTried => continue,
            };
            let Finding { rule, received, .. } = finding;
            writeln!(f, "{state:<6}  {rule:<widest$}  {received}")?;
            if finding.verdict == RuleVerdict::Broken {
                let Finding { contract, sent, .. } = finding;
                writeln!(f, "{:<6}  {:<widest$}    contract: {contract}", "", "")?;
                writeln!(f, "{:<6}  {:<widest$}    sent: {sent}", "", "")?;
            }
        }
        // Rules that were not tried for the same reason are listed on one line.
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for finding in self.rules.iter().filter(|finding| !tried(finding)) {
            match reasons.iter_mut().find(|(why, _)| *why == finding.received) {
                Some((_, rules)) => rules.push(finding.rule),
                None => reasons.push((&finding.received, vec![finding.rule])),
            }
        }
        for (why, rules) in reasons {
            writeln!(f, "not tried ({why}): {}", rules.join(", "))?;
        }
        let Counts {
            honoured,
            lacking,
            broken,
            not_tried,
        } = self.counts;
        write!(
            f,
            "{} {}: {honoured} rules honoured, {lacking} lacking, {broken} BROKEN, {not_tried} not tried",
            self.api, self.version
        )
    }
}
