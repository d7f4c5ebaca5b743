//! Lists by a Go client in a program of its own: etcd's clientv3, Kubernetes' client-go.
//!
//! The latency is the time from the program's call until every object is decoded. CPU and memory
//! are the program's. The contents of the list are checked afterwards, object by object, and none
//! of these measurements includes that.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use measure::Process;
use serde::Deserialize;
use workloads::GoClient;
use workloads::scenario::Media;

use super::chunk;
use super::error::ListError;
use super::list_case::ListCase;
use super::list_client::{ClientCost, ListClient};
use crate::child::parent_death;
use crate::clients::program::ClientProgram;
use crate::endpoint::TargetEndpoint;
use crate::verify::{Check, InvalidResponse, Listed};

/// The time limit of a list. It is below that of every list, so that the error names the program.
const LIST_TIMEOUT: Duration = Duration::from_secs(590);
/// How long a program may take from one object to the next while its list is checked, and to free
/// the list.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

/// The program's summary of a list.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Summary {
    ns: u64,
    objects: u64,
    revision: i64,
    chunks: u64,
    count: Option<i64>,
    more: bool,
}

/// The program's announcement of the objects that follow.
#[derive(Debug, Deserialize)]
struct Announced {
    objects: u64,
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Freed {
    #[serde(rename = "freed")]
    _freed: bool,
}

#[derive(Debug)]
pub(super) struct GoListClient {
    program: ClientProgram,
    about: Arc<str>,
    process: Process,
    /// The latest list, until it is checked.
    summary: Option<Summary>,
    cost: Option<ClientCost>,
}

/// Starts the program of a case and connects to it.
pub(super) async fn connect(
    client: GoClient,
    case: &ListCase,
    to: &TargetEndpoint,
) -> Result<GoListClient, ListError> {
    let path = case
        .go_clients
        .program(client)
        .map_err(ListError::NoProgram)?;
    let args = arguments(client, case, to)?;
    // The program is a client, so it uses the CPUs of the generator.
    let args = parent_death::arguments(None, &path, &args);
    let own = &case.go_clients.own_program;
    let program = ClientProgram::start(client.program(), own, &args).await?;
    let process = Process::new(program.pid())?;
    Ok(GoListClient {
        about: program.about().into(),
        program,
        process,
        summary: None,
        cost: None,
    })
}

fn arguments(
    client: GoClient,
    case: &ListCase,
    to: &TargetEndpoint,
) -> Result<Vec<OsString>, ListError> {
    let mut args = match (&to.etcd, &to.kube_url) {
        (Some(etcd), _) if client.tier() == workloads::Tier::Etcd => {
            let endpoints = etcd.endpoints.iter();
            let endpoints = endpoints.map(|uri| uri.to_string().trim_end_matches('/').to_owned());
            let endpoints = endpoints.collect::<Vec<_>>().join(",");
            vec![endpoints, case.prefix.clone(), client.mode()]
        }
        (_, Some(url)) if client.tier() == workloads::Tier::Kube => {
            let media = match case.parameters.media {
                Media::Protobuf => "protobuf",
                Media::Json => "json",
            };
            vec![url.clone(), client.mode(), media.to_owned()]
        }
        _ => return Err(case.no_endpoint(client.tier())),
    };
    if case.parameters.options.gzip {
        args.push("gzip".to_owned());
    }
    Ok(args.into_iter().map(OsString::from).collect())
}

impl GoListClient {
    fn cpu(&self) -> Result<Duration, ListError> {
        Ok(self.process.cpu()?)
    }

    fn note_cost(&mut self, latency: Duration, cpu_before: Duration) -> Result<(), ListError> {
        self.cost = Some(ClientCost {
            program: Arc::clone(&self.about),
            latency,
            cpu: self.cpu()?.saturating_sub(cpu_before),
            rss_peak: self.process.memory()?.peak,
        });
        Ok(())
    }
}

#[async_trait]
impl ListClient for GoListClient {
    fn shows_objects(&self) -> bool {
        false
    }

    fn cost(&mut self) -> Option<ClientCost> {
        self.cost.take()
    }

    async fn list(
        &mut self,
        _: &mut Check,
        _: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        self.summary = None;
        self.process.reset_peak()?;
        let cpu_before = self.cpu()?;
        let begun = Instant::now();
        let summary: Summary = self.program.ask("list", LIST_TIMEOUT).await?;
        let (elapsed, took) = (begun.elapsed(), Duration::from_nanos(summary.ns));
        self.note_cost(took, cpu_before)?;
        if took > elapsed {
            return Err(InvalidResponse::Time { took, elapsed }.into());
        }
        if summary.more {
            return Err(InvalidResponse::Cut.into());
        }
        if let Some(count) = summary.count {
            chunk::check_count(summary.objects, count)?;
        }
        self.summary = Some(summary);
        Ok(Listed {
            revision: summary.revision,
            chunks: summary.chunks,
            wire_bytes: 0,
        })
    }

    async fn show_latest(&mut self, check: &mut Check) -> Result<Listed, ListError> {
        let summary = self.summary.take();
        let summary = summary.ok_or(ListError::Unsupported(
            "there is no list to check: none was whole since the last check",
        ))?;
        let (begun, cpu_before) = (Instant::now(), self.cpu()?);
        let mut index = 0;
        let mut previous = Vec::new();
        let visit = |key: &[u8], value: &[u8], revision| {
            if index > 0 && previous.as_slice() >= key {
                return Err(ListError::Invalid(InvalidResponse::Order {
                    index,
                    key: key.escape_ascii().to_string(),
                    previous: previous.escape_ascii().to_string(),
                }));
            }
            index += 1;
            previous.clear();
            previous.extend_from_slice(key);
            check.visit(key, value, revision);
            Ok(())
        };
        let objects = |announced: &Announced| announced.objects;
        let shown = self
            .program
            .ask_objects::<_, Freed, _>("check", CHECK_TIMEOUT, objects, visit);
        let announced = shown.await?;
        self.note_cost(begun.elapsed(), cpu_before)?;
        if announced.objects != summary.objects {
            return Err(InvalidResponse::Objects {
                expected: summary.objects,
                found: announced.objects,
            }
            .into());
        }
        Ok(Listed {
            revision: summary.revision,
            chunks: summary.chunks,
            wire_bytes: announced.bytes,
        })
    }

    async fn list_unchecked(&mut self) -> Result<(), ListError> {
        Err(decodes())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        Err(decodes())
    }
}

fn decodes() -> ListError {
    ListError::Unsupported("a Go client lists whole lists and decodes them")
}
