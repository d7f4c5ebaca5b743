//! Short watches of random ranges, and the log: a watch of all keys for the whole run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::etcdserverpb::watch_client::WatchClient;
use history::{KeyRange, Message, Watch, WatchResponse};
use pb::watch_request::RequestUnion;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::convert;
use crate::lies::{Liar, Lie};
use crate::random_requests::{everything, some_range};
use crate::run::Shared;
use test_support::rng::Rng;

/// Client number of the log.
const LOG: u32 = 1_000;
/// Time between two requests for progress.
const ASK_PROGRESS: Duration = Duration::from_millis(50);
/// Pause before a stream that ended is opened again.
const PAUSE: Duration = Duration::from_millis(20);
/// Time limit for opening a stream.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for a watch to receive everything once the clients are done.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the range of revisions around the newest one that watches start from.
const AROUND: usize = 100;

/// Watches all keys from the first revision until the last revision of the run, resuming after a
/// stream ends. Returns the watch, and the reason if it fell behind and was ended.
pub(crate) async fn log(shared: Arc<Shared>) -> (Watch, Option<String>) {
    let mut log = Watch {
        client: LOG,
        range: everything(),
        start: 2,
        responses: Vec::new(),
    };
    let mut given_up = None;
    while !shared.is_told(log.complete_until()) {
        if shared.since_last() > CATCH_UP_TIMEOUT {
            let told = log.complete_until();
            given_up = Some(format!("the log's watch stopped at revision {told}"));
            break;
        }
        let mut part = Watch {
            start: log.complete_until() + 1,
            responses: Vec::new(),
            ..log.clone()
        };
        let mut liar = Liar::new(None);
        stream(&shared, &mut part, &mut liar, None).await;
        log.responses.append(&mut part.responses);
    }
    (log, given_up)
}

/// Opens one watch after the other, each for a random time, with another range or resumed. The last
/// one ends when it has reached the last revision of the run. Returns the watches, and the reason
/// if the last one fell behind and was ended.
pub(crate) async fn watches(
    shared: Arc<Shared>,
    client: u32,
    seed: u64,
) -> (Vec<Watch>, Option<String>) {
    let mut rng = Rng(seed);
    let mut liar = Liar::new(shared.lie);
    let mut all: Vec<Watch> = Vec::new();
    loop {
        let before = all.last().filter(|_| !rng.one_in(3));
        let resumable = before.filter(|watch| !is_compacted(watch));
        let (range, start) = match resumable {
            Some(watch) => (watch.range.clone(), watch.complete_until() + 1),
            None => fresh(&shared, &mut rng),
        };
        let mut watch = Watch {
            client,
            range,
            start,
            responses: Vec::new(),
        };
        let life = Duration::from_millis(50 + rng.below(600) as u64);
        stream(&shared, &mut watch, &mut liar, Some(life)).await;
        let told = watch.complete_until();
        let is_last = shared.is_told(told) && !is_compacted(&watch);
        all.push(watch);
        if is_last {
            return (all, None);
        }
        if shared.since_last() > CATCH_UP_TIMEOUT {
            let stuck = format!("the watches of client {client} stopped at revision {told}");
            return (all, Some(stuck));
        }
    }
}

fn is_compacted(watch: &Watch) -> bool {
    let last = watch.responses.last();
    last.is_some_and(|response| matches!(response.message, Message::Compacted(_)))
}

/// Returns a range and a revision to start from, sometimes compacted, sometimes in the future.
fn fresh(shared: &Shared, rng: &mut Rng) -> (KeyRange, i64) {
    let newest = shared.newest.load(Ordering::Relaxed);
    let around = rng.below(AROUND) as i64 - (AROUND as i64) * 4 / 5;
    // Once the clients are done, no event reaches a future revision.
    let around = if shared.is_over() {
        around.min(0)
    } else {
        around
    };
    (some_range(rng), (newest + around).max(1))
}

fn create(watch: &Watch) -> pb::WatchRequest {
    let create = pb::WatchCreateRequest {
        key: watch.range.from.clone().into(),
        range_end: watch.range.end.clone().into(),
        start_revision: watch.start,
        prev_kv: true,
        ..pb::WatchCreateRequest::default()
    };
    pb::WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    }
}

fn ask_progress() -> pb::WatchRequest {
    let progress = RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
    pb::WatchRequest {
        request_union: Some(progress),
    }
}

/// Records one stream until it ends, its time `life` is over, or it has reached the last revision.
async fn stream(shared: &Shared, watch: &mut Watch, liar: &mut Liar, life: Option<Duration>) {
    let mut service: WatchClient<Channel> = WatchClient::new(shared.channel(watch.client));
    let (requests, receiver) = mpsc::channel(16);
    // Progress is requested immediately, too: a watch that is behind must not receive any.
    for request in [create(watch), ask_progress()] {
        requests.send(request).await.expect("it has room");
    }
    let opened = service.watch(ReceiverStream::new(receiver));
    let Ok(Ok(opened)) = tokio::time::timeout(OPEN_TIMEOUT, opened).await else {
        return tokio::time::sleep(PAUSE).await;
    };
    let mut responses = opened.into_inner();
    let ends = life.map(|life| Instant::now() + life);
    // A copy of the watch's progress: computing it for each response would take quadratic time.
    let mut told = watch.complete_until();
    let mut ask = tokio::time::interval_at(Instant::now() + ASK_PROGRESS, ASK_PROGRESS);
    loop {
        if shared.is_told(told) || shared.since_last() > CATCH_UP_TIMEOUT {
            return;
        }
        // The last stream runs until it has reached the last revision.
        if !shared.is_over() && ends.is_some_and(|ends| Instant::now() > ends) {
            return;
        }
        tokio::select! {
            _ = ask.tick() => {
                // If the queue is full, the server still has earlier requests to read.
                drop(requests.try_send(ask_progress()));
            }
            response = responses.next() => {
                let at = shared.now();
                let Some(Ok(response)) = response else {
                    return tokio::time::sleep(PAUSE).await;
                };
                if let Some(message) = convert::message(&response) {
                    told = told.max(message.complete_until());
                    let is_lost = matches!(message, Message::Events(_)) && liar.lies(Lie::LostEvent);
                    if !is_lost {
                        watch.responses.push(WatchResponse { at, message });
                    }
                }
                if watch.client == LOG {
                    shared.log_told.fetch_max(told, Ordering::Relaxed);
                }
                if response.canceled {
                    return;
                }
            }
        }
    }
}
