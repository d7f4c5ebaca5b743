//! What an etcd endpoint honours of the contract that listing leans on. Only reads: safe on anybody's endpoint.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::client::kubernetes::KubernetesClient;
use etcd_api::client::list_validator::{ListSummary, Object};
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{KubernetesEtcd as _, WatchItem, WatchOptions};
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest, RangeResponse, StatusRequest};
use tokio::time::{sleep, timeout};
use workloads::Fingerprint;

/// Objects that a comparison reads at most: a probe must not load a production cluster.
const SAMPLE: i64 = 200;
/// Objects of one page of the paging check.
const PAGE: i64 = 5;
/// A key that nobody has, for what needs a key.
const NOBODYS_KEY: &[u8] = b"/loadgen/probe/nobody";
/// How long progress may take, asked for again and again.
const PROGRESS_WITHIN: Duration = Duration::from_secs(3);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What became of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As the contract has it.
    Honoured(String),
    /// Not there, which a client can find out and live with.
    Lacking(String),
    /// Answered, but not as the contract has it.
    Broken(String),
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub subject: &'static str,
    /// What became of it.
    pub verdict: Verdict,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, text) = match &self.verdict {
            Verdict::Honoured(text) => ("ok", text),
            Verdict::Lacking(text) => ("lacks", text),
            Verdict::Broken(text) => ("BROKEN", text),
        };
        write!(f, "{state:<6}  {:<20}  {text}", self.subject)
    }
}

/// Probes an endpoint.
///
/// # Errors
/// [`Error`] when it cannot be reached, or fails while it is being read; a broken contract is a finding.
pub async fn probe(config: &ClientConfig) -> Result<Vec<Finding>, Error> {
    let client = Client::connect(config.clone()).await?;
    let raw = client.raw().await?;
    let probe = Probe { client, raw };
    let checks = [
        ("status", probe.status().await?),
        ("linearizable read", probe.header().await?),
        ("error texts", probe.errors().await?),
        ("count", probe.count().await?),
        ("pages", probe.pages().await?),
        ("RangeStream", probe.range_stream().await?),
        ("watch progress", probe.progress().await?),
    ];
    let findings = checks.into_iter();
    Ok(findings
        .map(|(subject, verdict)| Finding { subject, verdict })
        .collect())
}

/// Writes a few keys to a server of our own, for [`probe`] to read.
///
/// # Errors
/// The first write that fails.
pub async fn furnish(config: &ClientConfig) -> Result<(), Error> {
    let client = Client::connect(config.clone()).await?;
    for i in 0..3 * PAGE {
        let request = PutRequest {
            key: format!("/loadgen/probe/{i:03}").into(),
            value: Bytes::from_static(b"value"),
            ..PutRequest::default()
        };
        client.kv().put(request).await?;
    }
    Ok(())
}

struct Probe {
    client: Client,
    raw: RawConnection,
}

impl Probe {
    async fn status(&self) -> Result<Verdict, Error> {
        let status = self.client.maintenance().status(StatusRequest {}).await?;
        let status = status.into_inner();
        let parts: Vec<_> = status.version.split(['.', '-', '+']).take(3).collect();
        let is_semver = parts.len() == 3 && parts.iter().all(|part| part.parse::<u64>().is_ok());
        if !is_semver {
            return Ok(Verdict::Broken(format!(
                "version `{}` is no semantic version: apiservers take the server for one without watch progress",
                status.version
            )));
        }
        Ok(Verdict::Honoured(format!(
            "version {}, database {} MiB, quota {}",
            status.version,
            status.db_size >> 20,
            match status.db_size_quota {
                0 => "not told".to_owned(),
                quota => format!("{} MiB", quota >> 20),
            }
        )))
    }

    async fn header(&self) -> Result<Verdict, Error> {
        let response = self.range(one_key(NOBODYS_KEY)).await?;
        let Some(header) = &response.header else {
            return Ok(Verdict::Broken("answers without a header".to_owned()));
        };
        if header.revision < 1 || header.cluster_id == 0 || header.member_id == 0 {
            return Ok(Verdict::Broken(format!("a header with zeros: {header:?}")));
        }
        Ok(Verdict::Honoured(format!("revision {}", header.revision)))
    }

    async fn errors(&self) -> Result<Verdict, Error> {
        let future = RangeRequest {
            revision: i64::MAX,
            ..one_key(NOBODYS_KEY)
        };
        let cases = [
            (one_key(b""), Refusal::EmptyKey),
            (future, Refusal::FutureRevision),
        ];
        for (request, expected) in cases {
            let answer = self.range(request).await;
            if !matches!(&answer, Err(Error::Refused(refusal)) if *refusal == expected) {
                let said =
                    answer.map_or_else(|error| error.to_string(), |_| "an answer".to_owned());
                return Ok(Verdict::Broken(format!(
                    "`{said}` where etcd says `{expected}`"
                )));
            }
        }
        Ok(Verdict::Honoured("as etcd has them".to_owned()))
    }

    async fn count(&self) -> Result<Verdict, Error> {
        let request = RangeRequest {
            count_only: true,
            ..everything(0)
        };
        let response = self.range(request).await?;
        if !response.kvs.is_empty() || response.more {
            return Ok(Verdict::Broken("count_only answers with keys".to_owned()));
        }
        Ok(Verdict::Honoured(format!("{} keys", response.count)))
    }

    /// Two pages: `count` is what remains from a page's start, `more` whether any does.
    async fn pages(&self) -> Result<Verdict, Error> {
        let first = self.range(everything(PAGE)).await?;
        let Some(last) = first.kvs.last().filter(|_| first.more) else {
            return Ok(match first.count == first.kvs.len() as i64 {
                true => Verdict::Lacking(format!("only {} keys: no second page", first.count)),
                false => Verdict::Broken(format!(
                    "more is false with {} of {} keys",
                    first.kvs.len(),
                    first.count
                )),
            });
        };
        let mut key = last.key.to_vec();
        key.push(0);
        let request = RangeRequest {
            key: key.into(),
            revision: first.header.as_ref().map_or(0, |header| header.revision),
            ..everything(PAGE)
        };
        let second = match self.range(request).await {
            // Somebody compacts while we look.
            Err(Error::Refused(Refusal::Compacted)) => {
                return Ok(Verdict::Lacking("compacted between two pages".to_owned()));
            }
            other => other?,
        };
        let expected = first.count - first.kvs.len() as i64;
        if second.count != expected {
            return Ok(Verdict::Broken(format!(
                "the second page counts {}, {expected} remained",
                second.count
            )));
        }
        Ok(Verdict::Honoured(
            "count shrinks by what was read".to_owned(),
        ))
    }

    /// The same keys by unary Range and by RangeStream, at one revision.
    async fn range_stream(&self) -> Result<Verdict, Error> {
        let header = self.range(one_key(NOBODYS_KEY)).await?.header;
        let request = RangeRequest {
            revision: header.map_or(0, |header| header.revision),
            ..everything(SAMPLE)
        };
        let streamed = match self.walk(ListRpc::RangeStream, &request).await {
            Err(Error::Unimplemented(text)) => return Ok(Verdict::Lacking(text)),
            Err(Error::Protocol(text)) => return Ok(Verdict::Broken(text)),
            other => other?,
        };
        let unary = self.walk(ListRpc::Range, &request).await?;
        if streamed.0.empty_chunks > 0 {
            return Ok(Verdict::Broken(
                "a chunk without keys before the last: apiservers fail on it".to_owned(),
            ));
        }
        let same = streamed.1 == unary.1
            && (streamed.0.count, streamed.0.more) == (unary.0.count, unary.0.more);
        if !same {
            return Ok(Verdict::Broken(format!(
                "{} keys (count {}) where unary has {} (count {})",
                streamed.0.objects, streamed.0.count, unary.0.objects, unary.0.count
            )));
        }
        Ok(Verdict::Honoured(format!(
            "{} keys in {} chunks, the same as unary",
            streamed.0.objects, streamed.0.messages
        )))
    }

    async fn progress(&self) -> Result<Verdict, Error> {
        let storage = KubernetesClient::new(self.client.clone());
        let features = storage.features().await?;
        if !features.request_progress {
            return Ok(Verdict::Lacking(format!(
                "version {}: progress could overtake events (etcd issues 15220, 17507)",
                features.version
            )));
        }
        let options = WatchOptions {
            single_key: true,
            stream_key: "probe".to_owned(),
            ..WatchOptions::default()
        };
        let at_least = storage.current_revision(NOBODYS_KEY).await?;
        let mut watch = match storage.watch(NOBODYS_KEY, options).await {
            Ok(watch) => watch,
            Err(error) => return Ok(Verdict::Broken(format!("no watch: {error}"))),
        };
        let ask = async {
            loop {
                storage.request_progress("probe").await.ok();
                sleep(PROGRESS_EVERY).await;
            }
        };
        let answered = async {
            while let Some(item) = watch.next().await {
                if let Ok(WatchItem::Progress { revision }) = item
                    && revision >= at_least
                {
                    return true;
                }
            }
            false
        };
        let answered = timeout(PROGRESS_WITHIN, async {
            tokio::select! {
                () = ask => false,
                answered = answered => answered,
            }
        });
        Ok(match answered.await {
            Ok(true) => Verdict::Honoured("on request".to_owned()),
            _ => Verdict::Broken("a watch in sync gets no progress on request".to_owned()),
        })
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        Ok(self.client.kv().range(request).await?.into_inner())
    }

    async fn walk(
        &self,
        rpc: ListRpc,
        request: &RangeRequest,
    ) -> Result<(ListSummary, Fingerprint), Error> {
        let mut fingerprint = Fingerprint::default();
        let mut visit = |object: Object<'_>| {
            fingerprint.add(object.key, object.value);
        };
        let summary = self.raw.validate(rpc, request, &mut visit, || {}).await?;
        Ok((summary, fingerprint))
    }
}

fn one_key(key: &'static [u8]) -> RangeRequest {
    RangeRequest {
        key: Bytes::from_static(key),
        ..RangeRequest::default()
    }
}

fn everything(limit: i64) -> RangeRequest {
    RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        limit,
        ..RangeRequest::default()
    }
}
