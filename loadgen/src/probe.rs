//! What an etcd endpoint honours of the contract that lists, watches and Kubernetes lean on: rule
//! by rule, what was sent and what came back. [`kube`] does the same of a Kubernetes API.
//!
//! - [`rule`]: what a rule is; [`rules`]: every rule of an etcd, and what is sent for it
//! - [`finding`]: what became of a rule; [`document`]: all of them, as text and as JSON
//! - [`reads`]: rules that only read, at most some tens of keys: safe on anybody's endpoint
//! - [`writes`]: rules that need to write, below a prefix of our own that is emptied again;
//!   [`watches`]: of what was written
//!
//! A rule whose request is refused for want of rights, or that needs what another rule has found
//! broken, is not tried.

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
pub use finding::{Finding, Verdict};
use rule::{Needs, Rule};
use rules::RULES;

use crate::safety::count;
use crate::timeouts::in_time;

/// Keys that are written so that there is something to read.
const FURNISHED: usize = 25;
/// How long what a rule waits for may take.
const WITHIN: Duration = Duration::from_secs(3);

/// Why rules that compact are not tried.
const ONLY_OURS: &str = "compacts history: only on servers that we start";
/// Why rules are not tried that build upon another one.
const NEEDS_ANOTHER: &str = "needs what another rule has found broken";

/// What a probe may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Write where no key is, else only read.
    IfEmpty,
    /// Write below a prefix of our own.
    Write,
    /// Also compact: the server is ours.
    Own,
    /// Read, and nothing else.
    Read,
}

/// Probes an endpoint. `run_id` makes our prefix unlike any other's. When `stop` is cancelled, what
/// was written is removed and the rest is not tried.
///
/// # Errors
/// [`Error`] when the endpoint cannot be reached, or is lost meanwhile; a broken rule is a finding.
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
            probe.furnish().await?;
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
    // In this order: why the rest was not tried matters more than what was left because of it.
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

/// Returns a finding for each rule, in the order of the rules: those that there are, and for the
/// others why they were not tried.
fn all_of(
    rules: &[&'static Rule],
    findings: Vec<Finding>,
    why: impl Fn(&Rule) -> &'static str,
) -> Vec<Finding> {
    let mut findings = findings;
    for rule in rules {
        if !findings.iter().any(|f| f.rule == rule.name) {
            findings.push(Finding::of(rule, Verdict::NotTried, why(rule)));
        }
    }
    findings.sort_by_key(|finding| rules.iter().position(|rule| rule.name == finding.rule));
    findings
}

/// A probe under way.
struct Probe {
    client: Client,
    storage: KubernetesClient,
    /// What we write is below it.
    prefix: Vec<u8>,
    findings: Vec<Finding>,
}

/// What a check came to: whether the rule holds, and what came back.
struct Found {
    verdict: Verdict,
    came: String,
}

/// Honoured where `holds`, else broken; `came` is what came back.
fn found(holds: bool, came: impl Into<String>) -> Found {
    let verdict = match holds {
        true => Verdict::Honoured,
        false => Verdict::Broken,
    };
    Found {
        verdict,
        came: came.into(),
    }
}

/// A server may be without it.
fn lacking(came: impl Into<String>) -> Found {
    Found {
        verdict: Verdict::Lacking,
        came: came.into(),
    }
}

/// It cannot be tried here.
fn not_tried(why: impl Into<String>) -> Found {
    Found {
        verdict: Verdict::NotTried,
        came: why.into(),
    }
}

impl Probe {
    /// Notes what a rule's check came to. Returns whether it is honoured.
    ///
    /// # Errors
    /// The endpoint is lost.
    fn note(&mut self, rule: &'static Rule, checked: Result<Found, Error>) -> Result<bool, Error> {
        let found = match checked {
            Ok(found) => found,
            Err(error) if is_lost(&error) => return Err(error),
            Err(Error::Refused(Refusal::PermissionDenied)) => {
                not_tried("this user may not: etcdserver: permission denied")
            }
            Err(Error::Refused(
                passing @ (Refusal::NoLeader | Refusal::LeaderChanged | Refusal::Timeout),
            )) => not_tried(format!("the cluster had no leader: {}", passing.text())),
            Err(error) => Found {
                verdict: Verdict::Broken,
                came: error.to_string(),
            },
        };
        let holds = found.verdict == Verdict::Honoured;
        self.findings
            .push(Finding::of(rule, found.verdict, found.came));
        Ok(holds)
    }

    fn key(&self, name: &str) -> Bytes {
        [&self.prefix, name.as_bytes()].concat().into()
    }

    /// Writes some keys, so that there is something to read.
    async fn furnish(&self) -> Result<(), Error> {
        for i in 0..FURNISHED {
            let request = PutRequest {
                key: self.key(&format!("read/{i:03}")),
                value: Bytes::from_static(b"value"),
                ..PutRequest::default()
            };
            in_time(self.client.kv().put(request)).await?;
        }
        Ok(())
    }

    /// Removes all that we have written.
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

/// Returns whether nothing else can be asked.
fn is_lost(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } => true,
        Error::Status { code, .. } => *code == tonic::Code::Unavailable,
        _ => false,
    }
}
