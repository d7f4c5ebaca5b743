//! Rules that only read: the first keys of the endpoint, some tens at most, whatever they are.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{KubernetesEtcd as _, WatchItem, WatchOptions};
use etcd_api::proto::etcdserverpb::range_request::SortOrder;
use etcd_api::proto::etcdserverpb::{RangeRequest, RangeResponse, StatusRequest};
use tokio::time::{Duration, sleep, timeout};

use super::rules::*;
use super::{Observation, Probe, RULE_TIMEOUT, judged, lacking, not_tried};
use crate::timeouts::in_time;

/// The number of keys of a page.
const PAGE: i64 = 5;
/// The number of keys that are compared: more than the first message of a RangeStream has.
const SAMPLE: i64 = 20;
/// A key that does not exist, for requests that need a key.
const NONEXISTENT_KEY: &[u8] = b"/loadgen/probe/nobody";
/// The interval between requests for progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Tries these rules.
///
/// # Errors
/// The error with which the endpoint was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<(), Error> {
    let checked = version(&probe.client).await;
    probe.note(&VERSION, checked)?;
    let checked = header(probe).await;
    probe.note(&HEADER, checked)?;
    let checked = refused(probe, one_key(b""), Refusal::EmptyKey).await;
    probe.note(&ERROR_EMPTY_KEY, checked)?;
    let future = RangeRequest {
        revision: i64::MAX,
        ..one_key(NONEXISTENT_KEY)
    };
    let checked = refused(probe, future, Refusal::FutureRevision).await;
    probe.note(&ERROR_FUTURE, checked)?;
    let checked = count_only(probe).await;
    probe.note(&COUNT_ONLY, checked)?;
    let checked = limit(probe).await;
    probe.note(&LIMIT, checked)?;
    let checked = key_order(probe).await;
    probe.note(&KEY_ORDER, checked)?;
    let checked = keys_only(probe).await;
    probe.note(&KEYS_ONLY, checked)?;
    let checked = pages(probe).await;
    probe.note(&PAGES, checked)?;
    let checked = range_stream(probe).await;
    probe.note(&RANGE_STREAM, checked)?;
    let checked = layout(probe).await;
    probe.note(&RANGE_STREAM_LAYOUT, checked)?;
    let checked = stream_sort(probe).await;
    probe.note(&RANGE_STREAM_SORT, checked)?;
    let checked = progress(probe).await;
    probe.note(&WATCH_PROGRESS, checked)?;
    Ok(())
}

async fn version(client: &Client) -> Result<Observation, Error> {
    let status = in_time(client.maintenance().status(StatusRequest {})).await?;
    let version = status.into_inner().version;
    let parts: Vec<_> = version.split(['.', '-', '+']).take(3).collect();
    let is_semantic = parts.len() == 3 && parts.iter().all(|part| part.parse::<u64>().is_ok());
    Ok(judged(is_semantic, format!("version `{version}`")))
}

async fn header(probe: &Probe) -> Result<Observation, Error> {
    let response = probe.range(one_key(NONEXISTENT_KEY)).await?;
    let Some(header) = response.header else {
        return Ok(judged(false, "no header"));
    };
    let is_whole = header.revision > 0
        && header.cluster_id != 0
        && header.member_id != 0
        && header.raft_term != 0;
    Ok(judged(
        is_whole,
        format!(
            "cluster {:x}, member {:x}, revision {}, term {}",
            header.cluster_id, header.member_id, header.revision, header.raft_term
        ),
    ))
}

async fn refused(probe: &Probe, request: RangeRequest, as_: Refusal) -> Result<Observation, Error> {
    match probe.range(request).await {
        Err(Error::Refused(refusal)) => Ok(judged(refusal == as_, refusal.text())),
        Err(other) => Err(other),
        Ok(_) => Ok(judged(false, "a response")),
    }
}

async fn count_only(probe: &Probe) -> Result<Observation, Error> {
    let request = RangeRequest {
        count_only: true,
        ..everything(0)
    };
    let RangeResponse {
        kvs, count, more, ..
    } = probe.range(request).await?;
    let received = format!("count {count}, {} keys, more {more}", kvs.len());
    Ok(judged(kvs.is_empty() && !more && count >= 0, received))
}

async fn limit(probe: &Probe) -> Result<Observation, Error> {
    let page = probe.range(everything(PAGE)).await?;
    let keys = page.kvs.len() as i64;
    let received = format!("{keys} keys of {}, more {}", page.count, page.more);
    let holds = keys == page.count.min(PAGE) && page.more == (page.count > keys);
    Ok(judged(holds, received))
}

async fn key_order(probe: &Probe) -> Result<Observation, Error> {
    let page = probe.range(everything(SAMPLE)).await?;
    if page.kvs.len() < 2 {
        return Ok(not_tried(format!("there are {} keys", page.kvs.len())));
    }
    let out_of_order = page.kvs.windows(2).find(|two| two[0].key >= two[1].key);
    Ok(match out_of_order {
        None => judged(true, format!("{} keys in order", page.kvs.len())),
        // Keys belong to the endpoint's owner, so the report does not name them.
        Some(_) => judged(false, format!("{} keys out of order", page.kvs.len())),
    })
}

async fn keys_only(probe: &Probe) -> Result<Observation, Error> {
    let whole = probe.range(everything(PAGE)).await?;
    let request = RangeRequest {
        keys_only: true,
        revision: revision(&whole),
        ..everything(PAGE)
    };
    let keys = probe.range(request).await?;
    let with_value = keys.kvs.iter().filter(|kv| !kv.value.is_empty()).count();
    let is_same = whole
        .kvs
        .iter()
        .map(|kv| &kv.key)
        .eq(keys.kvs.iter().map(|kv| &kv.key));
    let same = if is_same { "the same" } else { "other" };
    let received = format!("{} {same} keys, {with_value} with a value", keys.kvs.len());
    Ok(judged(is_same && with_value == 0, received))
}

async fn pages(probe: &Probe) -> Result<Observation, Error> {
    let first = probe.range(everything(PAGE)).await?;
    let Some(last) = first.kvs.last().filter(|_| first.more) else {
        return Ok(not_tried(format!(
            "only {} keys: no second page",
            first.count
        )));
    };
    let request = RangeRequest {
        key: [&last.key, &b"\0"[..]].concat().into(),
        revision: revision(&first),
        ..everything(PAGE)
    };
    let second = match probe.range(request).await {
        Err(Error::Refused(Refusal::Compacted)) => {
            return Ok(not_tried("a compaction came between the two pages"));
        }
        other => other?,
    };
    let expected = first.count - first.kvs.len() as i64;
    let received = format!(
        "count {} on the second page, where {expected} remained",
        second.count
    );
    let goes_on = second.kvs.first().is_some_and(|kv| kv.key > last.key);
    Ok(judged(second.count == expected && goes_on, received))
}

/// Reads all messages of a RangeStream.
async fn streamed(probe: &Probe, request: RangeRequest) -> Result<Vec<RangeResponse>, Error> {
    let messages = async {
        let mut stream = probe.client.kv().range_stream(request).await?.into_inner();
        let mut messages = Vec::new();
        while let Some(message) = stream.message().await? {
            messages.push(message.range_response.unwrap_or_default());
        }
        Ok::<_, tonic::Status>(messages)
    };
    in_time(messages).await
}

async fn range_stream(probe: &Probe) -> Result<Observation, Error> {
    let unary = probe.range(everything(SAMPLE)).await?;
    let request = RangeRequest {
        revision: revision(&unary),
        ..everything(SAMPLE)
    };
    let messages = match streamed(probe, request).await {
        Err(Error::Unimplemented(text)) => return Ok(lacking(text)),
        other => other?,
    };
    let kvs: Vec<_> = messages.iter().flat_map(|message| &message.kvs).collect();
    let (count, more) = messages
        .last()
        .map_or((0, false), |last| (last.count, last.more));
    let is_same = unary.kvs.iter().eq(kvs.iter().copied());
    let received = format!(
        "{} keys in {} messages, count {count}, more {more}; by Range {} keys, count {}, more {}",
        kvs.len(),
        messages.len(),
        unary.kvs.len(),
        unary.count,
        unary.more
    );
    Ok(judged(
        is_same && (count, more) == (unary.count, unary.more),
        received,
    ))
}

async fn layout(probe: &Probe) -> Result<Observation, Error> {
    let messages = match streamed(probe, everything(SAMPLE)).await {
        Err(Error::Unimplemented(text)) => return Ok(lacking(text)),
        other => other?,
    };
    let Some((last, before)) = messages.split_last() else {
        return Ok(judged(false, "no message"));
    };
    if last.header.is_none() {
        return Ok(judged(false, "no header in the last message"));
    }
    let odd = before.iter().position(|message| {
        message.header.is_some() || message.count != 0 || message.more || message.kvs.is_empty()
    });
    Ok(match odd {
        Some(at) => {
            let message = &before[at];
            judged(
                false,
                format!(
                    "message {} of {} has {} keys, count {}, more {}, {} header",
                    at + 1,
                    messages.len(),
                    message.kvs.len(),
                    message.count,
                    message.more,
                    message.header.map_or("no", |_| "a")
                ),
            )
        }
        None => judged(true, format!("{} messages", messages.len())),
    })
}

async fn stream_sort(probe: &Probe) -> Result<Observation, Error> {
    let request = RangeRequest {
        sort_order: SortOrder::Descend.into(),
        ..one_key(NONEXISTENT_KEY)
    };
    match streamed(probe, request).await {
        Ok(_) => Ok(judged(false, "a response")),
        Err(Error::Refused(refusal)) => Ok(judged(
            refusal == Refusal::StreamSortUnsupported,
            refusal.text(),
        )),
        Err(Error::Unimplemented(text)) => Ok(lacking(text)),
        Err(other) => Err(other),
    }
}

async fn progress(probe: &Probe) -> Result<Observation, Error> {
    let storage = &probe.storage;
    let features = in_time(storage.features()).await?;
    if !features.request_progress {
        return Ok(lacking(format!(
            "version {}: progress could overtake events (etcd issues 15220, 17507)",
            features.version
        )));
    }
    let options = WatchOptions {
        single_key: true,
        stream_key: "probe".to_owned(),
        ..WatchOptions::default()
    };
    let at_least = in_time(storage.current_revision(NONEXISTENT_KEY)).await?;
    let mut watch = match timeout(RULE_TIMEOUT, storage.watch(NONEXISTENT_KEY, options)).await {
        Ok(Ok(watch)) => watch,
        Ok(Err(error)) => return Ok(judged(false, format!("no watch: {error}"))),
        Err(_) => return Ok(judged(false, "no watch within 3 s")),
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
    let answered = timeout(RULE_TIMEOUT, async {
        tokio::select! {
            () = ask => false,
            answered = answered => answered,
        }
    });
    Ok(match answered.await {
        Ok(true) => judged(true, "progress at the latest revision"),
        Ok(false) => judged(false, "the watch ended"),
        Err(_) => judged(false, "no progress within 3 s"),
    })
}

fn revision(response: &RangeResponse) -> i64 {
    response.header.as_ref().map_or(0, |header| header.revision)
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
