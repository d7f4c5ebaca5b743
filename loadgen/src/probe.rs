//! Checks how far an etcd endpoint honours the contract that lists, watches and Kubernetes depend
//! on, and records for each rule what was sent and received. [`kube`] does the same for a
//! Kubernetes API.
//!
//! - [`rule`]: the type of a rule; [`rules`]: every rule for an etcd, and what is sent for it
//! - [`finding`]: the outcome of a rule; [`document`]: all outcomes, as text and as JSON
//! - [`reads`]: rules that only read some tens of keys at most: safe on any endpoint
//! - [`writes`]: rules that write, below a prefix of the probe's own that is emptied again;
//!   [`watches`]: rules of watches of these writes
//!
//! A rule is not tried if its request is refused for lack of permission, or if it needs a feature
//! that another rule found broken.

pub mod document;
pub mod finding;
pub mod kube;
mod reads;
pub mod rule;
pub mod rules;
mod watches;
mod writes;

use std::time::Duration;

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::client::kubernetes::KubernetesClient;
use etcd_api::error::{Error, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, StatusRequest,
};
use tokio_util::sync::CancellationToken;

use document::Api;
pub use document::Document;
pub use finding::{Finding, RuleVerdict};
use rule::{Needs, Rule};
use rules::RULES;

use crate::safety::count;
use crate::timeouts::in_time;

/// The number of keys that are written so that there is something to read.
const SEEDED_KEYS: usize = 25;
/// The longest time that a rule waits for something.
const RULE_TIMEOUT: Duration = Duration::from_secs(3);

/// The reason why rules that compact are not tried.
const ONLY_OURS: &str = "compacts history: only on servers that we start";
/// The reason why rules that depend on a broken one are not tried.
const NEEDS_ANOTHER: &str = "needs what another rule has found broken";

/// The operations that a probe may perform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Write if the endpoint has no keys, otherwise only read.
    IfEmpty,
    /// Write below a prefix of the probe's own.
    Write,
    /// Also compact: loadgen started the server.
    Own,
    /// Only read.
    Read,
}

/// Probes an endpoint. `run_id` makes the prefix of the written keys unique. When `stop` is
/// cancelled, the written keys are removed and the remaining rules are not tried.
///
/// # Errors
/// [`Error`] if the endpoint cannot be reached, or is lost meanwhile. A broken rule is not an error
/// but a finding.
pub async fn probe(
    config: &ClientConfig,
    access: Access,
    run_id: &str,
    stop: &CancellationToken,
) -> Result<Document, Error> {
    let client = in_time(Client::connect(config.clone())).await?;
    let status = in_time(client.maintenance().status(StatusRequest {})).await?;
    let may_write = match access {
        Access::Read => false,
        Access::IfEmpty => in_time(count(&client, b"")).await? == 0,
        Access::Write | Access::Own => true,
    };
    let mut probe = Probe {
        storage: KubernetesClient::new(client.clone()),
        client,
        prefix: format!("/loadgen/probe/{run_id}/").into_bytes(),
        findings: Vec::new(),
    };
    let rules = async {
        if may_write {
            probe.seed_keys().await?;
        }
        reads::try_all(&mut probe).await?;
        if may_write {
            let history = writes::try_all(&mut probe).await?;
            watches::try_all(&mut probe, &history, access == Access::Own).await?;
        }
        Ok(())
    };
    let tried: Result<(), Error> = tokio::select! {
        tried = rules => tried,
        () = stop.cancelled() => Ok(()),
    };
    let cleared = match may_write {
        true => probe.clear().await,
        false => Ok(()),
    };
    // The error of the rules is returned first: it matters more than keys left behind because of
    // it.
    tried?;
    cleared?;
    let why = match may_write {
        true => NEEDS_ANOTHER,
        false => {
            "writes, and the endpoint holds keys: --seed-data allows it, below a prefix of our own"
        }
    };
    let findings = all_of(&RULES, probe.findings, |rule| match (rule.needs, access) {
        (Needs::OwnServer, Access::IfEmpty | Access::Write | Access::Read) => ONLY_OURS,
        _ => why,
    });
    let version = status.into_inner().version;
    Ok(Document::new(Api::Etcd, &version, may_write, findings))
}

/// Returns a finding for each rule, in the order of the rules: the given findings, and for the
/// other rules the reason why they were not tried.
fn all_of(
    rules: &[&'static Rule],
    findings: Vec<Finding>,
    why: impl Fn(&Rule) -> &'static str,
) -> Vec<Finding> {
    let mut findings = findings;
    for rule in rules {
        if !findings.iter().any(|f| f.rule == rule.name) {
            findings.push(Finding::of(rule, RuleVerdict::NotTried, why(rule)));
        }
    }
    findings.sort_by_key(|finding| rules.iter().position(|rule| rule.name == finding.rule));
    findings
}

/// A running probe.
struct Probe {
    client: Client,
    storage: KubernetesClient,
    /// The prefix of all written keys.
    prefix: Vec<u8>,
    findings: Vec<Finding>,
}

/// The outcome of a check: the verdict, and what was received.
struct Observation {
    verdict: RuleVerdict,
    received: String,
}

/// Returns [`RuleVerdict::Honoured`] if `holds`, otherwise [`RuleVerdict::Broken`]; `received`
/// describes what was received.
fn judged(holds: bool, received: impl Into<String>) -> Observation {
    let verdict = match holds {
        true => RuleVerdict::Honoured,
        false => RuleVerdict::Broken,
    };
    Observation {
        verdict,
        received: received.into(),
    }
}

/// Returns [`RuleVerdict::Lacking`], for an optional feature.
fn lacking(received: impl Into<String>) -> Observation {
    Observation {
        verdict: RuleVerdict::Lacking,
        received: received.into(),
    }
}

/// Returns [`RuleVerdict::NotTried`] with the reason.
fn not_tried(why: impl Into<String>) -> Observation {
    Observation {
        verdict: RuleVerdict::NotTried,
        received: why.into(),
    }
}

impl Probe {
    /// Records the outcome of a rule's check. Returns whether the rule is honoured.
    ///
    /// # Errors
    /// The error with which the endpoint was lost.
    fn note(
        &mut self,
        rule: &'static Rule,
        checked: Result<Observation, Error>,
    ) -> Result<bool, Error> {
        let found = match checked {
            Ok(found) => found,
            Err(error) if is_lost(&error) => return Err(error),
            Err(Error::Refused(Refusal::PermissionDenied)) => {
                not_tried("this user may not: etcdserver: permission denied")
            }
            Err(Error::Refused(
                passing @ (Refusal::NoLeader | Refusal::LeaderChanged | Refusal::Timeout),
            )) => not_tried(format!("the cluster had no leader: {}", passing.text())),
            Err(error) => Observation {
                verdict: RuleVerdict::Broken,
                received: error.to_string(),
            },
        };
        let holds = found.verdict == RuleVerdict::Honoured;
        self.findings
            .push(Finding::of(rule, found.verdict, found.received));
        Ok(holds)
    }

    fn key(&self, name: &str) -> Bytes {
        [&self.prefix, name.as_bytes()].concat().into()
    }

    /// Writes some keys, so that there is something to read.
    async fn seed_keys(&self) -> Result<(), Error> {
        for i in 0..SEEDED_KEYS {
            let request = PutRequest {
                key: self.key(&format!("read/{i:03}")),
                value: Bytes::from_static(b"value"),
                ..PutRequest::default()
            };
            in_time(self.client.kv().put(request)).await?;
        }
        Ok(())
    }

    /// Removes all written keys.
    async fn clear(&self) -> Result<(), Error> {
        let request = DeleteRangeRequest {
            key: self.prefix.clone().into(),
            range_end: prefix_end(&self.prefix).into(),
            ..DeleteRangeRequest::default()
        };
        in_time(self.client.kv().delete_range(request)).await?;
        Ok(())
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        Ok(in_time(self.client.kv().range(request)).await?.into_inner())
    }
}

/// Returns whether the error means that no further request can succeed.
fn is_lost(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } => true,
        Error::Status { code, .. } => *code == tonic::Code::Unavailable,
        _ => false,
    }
}
