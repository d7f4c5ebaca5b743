//! Checks how far a Kubernetes API honours what lists, watches and their clients rely on.
//!
//! - [`rules`]: every rule, and what is sent for it
//! - [`requests`]: sends requests and reads responses; [`list`]: a list response
//! - [`collection`]: the collection that is probed: an existing small one, or one of the probe's
//!   own
//! - [`lists`], [`refusals`], [`forms`], [`shards`], [`watches`]: rules that only read
//! - [`writes`]: rules that write, into a namespace of the probe's own; [`events`]: rules of
//!   watches of these writes
//! - [`compacted`]: rules of compacted resourceVersions

mod collection;
mod compacted;
mod events;
mod forms;
mod list;
mod lists;
mod refusals;
mod requests;
pub mod rules;
mod shards;
mod watches;
mod writes;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::client::kubernetes::KubernetesClient;
use etcd_api::error::Error as EtcdError;
use etcd_api::kubernetes::KubernetesEtcd as _;
use kube_api::client::{KubeAccess, KubeError};
use tokio_util::sync::CancellationToken;

use super::document::{Api, Document};
use super::finding::{Finding, RuleVerdict};
use super::rule::Rule;
use super::{NEEDS_ANOTHER, Observation, all_of};
use crate::progress::Progress;
use crate::seed::kube::{Left, SeedError};
use crate::timeouts::in_time;
use collection::{Collection, Own};
use list::List;
use requests::{CheckError, Requests, Response};
use rules::{RULES, VERSION};

/// The reason why rules that write are not tried.
const WRITES: &str = "writes: --seed-data allows it, into a namespace of our own that is removed";
/// The reason why only the rule of the version is tried.
const NO_COLLECTION: &str = "no small collection was found to ask: --seed-data makes one";

/// A Kubernetes API to probe.
#[derive(Debug, Clone)]
pub struct KubeEndpoint {
    /// `http[s]://HOST[:PORT]`.
    pub url: String,
    /// The credentials.
    pub access: KubeAccess,
    /// The etcd behind the API, if its history may be compacted.
    pub storage: Option<ClientConfig>,
}

/// An error that ended a probe, or left something behind.
#[derive(Debug, thiserror::Error)]
pub enum KubeProbeError {
    /// The API cannot be reached, or was lost meanwhile.
    #[error(transparent)]
    Lost(#[from] KubeError),
    /// The probe's namespace could not be created or filled.
    #[error(transparent)]
    Own(#[from] SeedError),
    /// The probe's namespace could not be removed.
    #[error(transparent)]
    Left(#[from] Left),
    /// The probe ended early, and its namespace could not be removed.
    #[error("{0}; {1}")]
    LostAndLeft(Box<Self>, Box<Self>),
    /// The etcd behind the API cannot be reached.
    #[error(transparent)]
    Storage(#[from] EtcdError),
}

/// Probes a Kubernetes API: with `may_write` in a namespace that is created for it and removed
/// again, otherwise in an existing collection of at most 200 small objects. When `stop` is
/// cancelled, the remaining rules are not tried.
///
/// # Errors
/// [`KubeProbeError`]. A broken rule is not an error but a finding.
pub async fn probe(
    endpoint: &KubeEndpoint,
    may_write: bool,
    run_id: &str,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Document, KubeProbeError> {
    let mut requests = Requests::new(&endpoint.url, &endpoint.access)?;
    let version = match requests.get("/version").await {
        Err(CheckError::Lost(error)) => return Err(error.into()),
        version => version,
    };
    let own = may_write.then(|| Own::new(endpoint, run_id));
    let probing = async {
        let found = match &own {
            Some(own) => {
                own.create(&mut requests).await?;
                collection::look(&mut requests, &own.collection()).await
            }
            None => collection::find(&mut requests).await,
        };
        let Some(collection) = found? else {
            return Ok(None);
        };
        let mut probe = Probe {
            requests,
            collection,
            findings: Vec::new(),
        };
        try_all(&mut probe, endpoint, may_write).await?;
        Ok::<_, KubeProbeError>(Some(probe.findings))
    };
    let probed = tokio::select! {
        probed = probing => probed,
        () = stop.cancelled() => Ok(Some(Vec::new())),
    };
    let removed = match own {
        Some(own) => own.remove(progress).await,
        None => Ok(()),
    };
    let findings = match (probed, removed) {
        (Ok(findings), Ok(())) => findings,
        (Ok(_), Err(left)) => return Err(left),
        (Err(error), Ok(())) => return Err(error),
        (Err(error), Err(left)) => {
            let (error, left) = (Box::new(error), Box::new(left));
            return Err(KubeProbeError::LostAndLeft(error, left));
        }
    };
    let why = match (&findings, may_write) {
        (None, _) => NO_COLLECTION,
        (_, false) => WRITES,
        (_, true) => NEEDS_ANOTHER,
    };
    let mut findings = findings.unwrap_or_default();
    let text = semantic(&mut findings, version);
    let findings = all_of(&RULES, findings, |_| why);
    Ok(Document::new(Api::Kubernetes, &text, may_write, findings))
}

/// Tries all rules that may be tried.
async fn try_all(
    probe: &mut Probe,
    endpoint: &KubeEndpoint,
    may_write: bool,
) -> Result<(), KubeProbeError> {
    lists::try_all(probe).await?;
    refusals::try_all(probe).await?;
    forms::try_all(probe).await?;
    shards::try_all(probe).await?;
    watches::try_all(probe).await?;
    if may_write {
        let history = writes::try_all(probe).await?;
        events::try_all(probe, &history).await?;
    }
    if let Some(storage) = &endpoint.storage {
        let client = in_time(Client::connect(storage.clone())).await?;
        let storage = KubernetesClient::new(client);
        let latest = in_time(storage.current_revision(b"/registry/")).await?;
        in_time(storage.compact(latest)).await?;
    }
    compacted::try_all(probe).await?;
    Ok(())
}

/// Records whether the version is a semantic one. Returns it as the API reports it, or a
/// placeholder if it is not semantic.
fn semantic(findings: &mut Vec<Finding>, version: Result<Response, CheckError>) -> String {
    let found = match version {
        Ok(response) => {
            let text = response.json["gitVersion"].as_str().unwrap_or_default();
            let numbers = text.strip_prefix('v').unwrap_or_default();
            let parts: Vec<_> = numbers.split(['.', '-', '+']).take(3).collect();
            let is_semantic = parts.len() == 3 && parts.iter().all(|p| p.parse::<u64>().is_ok());
            let received = match text {
                "" => response.shown(),
                text => text.to_owned(),
            };
            super::judged(is_semantic, received)
        }
        Err(trouble) => of_trouble(trouble),
    };
    let text = found.received.clone();
    let is_told = found.verdict == RuleVerdict::Honoured;
    findings.push(Finding::of(&VERSION, found.verdict, found.received));
    match is_told {
        true => text,
        false => "of unknown version".to_owned(),
    }
}

/// Returns the outcome of a check without a usable response.
fn of_trouble(trouble: CheckError) -> Observation {
    match trouble {
        CheckError::Lost(error) => super::judged(false, error.to_string()),
        CheckError::NotTried(why) => super::not_tried(why),
        CheckError::Broken(received) => super::judged(false, received),
    }
}

/// The result of a check.
type Checked = Result<Observation, CheckError>;

/// A running probe.
struct Probe {
    requests: Requests,
    collection: Collection,
    findings: Vec<Finding>,
}

impl Probe {
    /// Records the outcome of a rule's check. Returns whether the rule is honoured.
    ///
    /// # Errors
    /// The error with which the API was lost.
    fn note(&mut self, rule: &'static Rule, checked: Checked) -> Result<bool, KubeError> {
        let found = match checked {
            Ok(found) => found,
            Err(CheckError::Lost(error)) => return Err(error),
            Err(trouble) => of_trouble(trouble),
        };
        let holds = found.verdict == RuleVerdict::Honoured;
        let finding = Finding::of(rule, found.verdict, found.received);
        self.findings.push(finding);
        Ok(holds)
    }

    /// Returns the path of the collection with this query.
    fn path(&self, query: &str) -> String {
        match query {
            "" => self.collection.path.clone(),
            query => format!("{}?{query}", self.collection.path),
        }
    }

    /// Returns the path of an object of the collection.
    fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.collection.path)
    }

    async fn get(&mut self, query: &str) -> Result<Response, CheckError> {
        let path = self.path(query);
        self.requests.get(&path).await
    }

    async fn list(&mut self, query: &str) -> Result<List, CheckError> {
        List::read(self.get(query).await?)
    }

    /// Lists the collection at exactly this resourceVersion.
    async fn exact(&mut self, version: u64) -> Result<List, CheckError> {
        let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
        self.list(&exact).await
    }
}

/// Tries rules one after the other, each by its check function.
macro_rules! try_rules {
    ($probe:ident: $($rule:ident by $check:path;)*) => {
        $(
            let checked = $check(&mut *$probe).await;
            $probe.note(&$rule, checked)?;
        )*
    };
}

use try_rules;
