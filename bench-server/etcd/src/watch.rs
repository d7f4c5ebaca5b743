//! The Watch service: connects a client's requests with the store's notices.
//!
//! One object serves both directions: each poll first handles the client's requests, then returns
//! the next notice of the store's queue. There is no task and no channel in between, so for a
//! client that does not read, the history is not read either.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::watch_create_request::FilterType;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::watch_server::Watch;
use etcd_api::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use etcd_api::proto::mvccpb::Event;
use etcd_api::proto::mvccpb::event::EventType;
use futures::Stream;
use prost::Message;
use store::Record;
use store::watch_hub::{Delivery, Notice, WatchSpec, WatchStream};
use tokio::time::{Instant, Sleep};
use tonic::{Code, Request, Response, Status, Streaming};
use wire::grpc;

use super::{GRPC_OVERHEAD_BYTES, Node};

/// Maximum number of requests that are handled before a response is sent.
const MAX_REQUESTS_PER_POLL: usize = 128;

/// The Watch service of one node.
#[derive(Debug, Clone)]
pub struct WatchService(pub Arc<Node>);

#[tonic::async_trait]
impl Watch for WatchService {
    type WatchStream = WatchResponses<Streaming<WatchRequest>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(WatchResponses::new(
            self.0.clone(),
            request.into_inner(),
        )))
    }
}

/// The stream of responses. It ends when the client disconnects, but not when the client's requests
/// end.
pub struct WatchResponses<R> {
    node: Arc<Node>,
    requests: Option<R>,
    watchers: WatchStream,
    /// Unsent fragments of a large response.
    fragments: VecDeque<WatchResponse>,
    /// Timer of the next periodic progress, which starts with the stream, as etcd's does.
    progress: Pin<Box<Sleep>>,
    /// The time between two of them.
    progress_interval: Duration,
}

impl<R> WatchResponses<R> {
    /// Returns the responses to `requests`.
    fn new(node: Arc<Node>, requests: R) -> Self {
        let progress_interval = with_jitter(node.progress_notify_interval);
        Self {
            watchers: node.store.watch(),
            node,
            requests: Some(requests),
            fragments: VecDeque::new(),
            progress: Box::pin(tokio::time::sleep(progress_interval)),
            progress_interval,
        }
    }

    fn handle_request(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => {
                self.watchers.create(spec(create));
            }
            Some(RequestUnion::CancelRequest(cancel)) => self.watchers.cancel(cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.watchers.request_progress(),
            None => {}
        }
    }

    fn response(&mut self, notice: Notice) -> WatchResponse {
        let response = |id, revision| WatchResponse {
            header: Some(self.node.header(revision)),
            watch_id: id,
            ..Default::default()
        };
        match notice {
            Notice::Created { id, revision } => WatchResponse {
                created: true,
                ..response(id, revision)
            },
            Notice::Refused { reason, revision } => WatchResponse {
                created: true,
                canceled: true,
                cancel_reason: reason.to_owned(),
                ..response(-1, revision)
            },
            Notice::Canceled { id, revision } => WatchResponse {
                canceled: true,
                ..response(id, revision)
            },
            Notice::Compacted {
                id,
                compact_revision,
            } => WatchResponse {
                canceled: true,
                compact_revision,
                ..response(id, 0)
            },
            Notice::Progress { id, revision } => response(id, revision),
            Notice::Events(delivery) => {
                let whole = WatchResponse {
                    events: events(&delivery),
                    ..response(delivery.id, delivery.revision)
                };
                if !delivery.fragment {
                    return whole;
                }
                let limit = self.node.max_request_bytes + GRPC_OVERHEAD_BYTES;
                self.fragments = split(whole, limit);
                self.fragments.pop_front().expect("at least one fragment")
            }
        }
    }
}

/// Returns the interval plus up to a tenth of it, so that streams opened together spread out.
fn with_jitter(interval: Duration) -> Duration {
    let share = (RandomState::new().hash_one(0) % 1000) as u32;
    interval + interval * share / 10_000
}

/// Converts a request to the store's type.
pub fn spec(create: WatchCreateRequest) -> WatchSpec {
    let filtered = |filter: FilterType| create.filters.contains(&(filter as i32));
    WatchSpec {
        no_put: filtered(FilterType::Noput),
        no_delete: filtered(FilterType::Nodelete),
        key: create.key.into(),
        range_end: create.range_end.into(),
        start_revision: create.start_revision,
        id: create.watch_id,
        prev_kv: create.prev_kv,
        progress_notify: create.progress_notify,
        fragment: create.fragment,
    }
}

/// Returns the events as messages. Keys and values share the stored bytes.
fn events(delivery: &Delivery) -> Vec<Event> {
    let message = |(event, prev): (&store::history::Event, Option<&Record>)| Event {
        r#type: match event.record.is_tombstone() {
            true => EventType::Delete.into(),
            false => EventType::Put.into(),
        },
        kv: Some(event.record.to_kv()),
        prev_kv: prev.map(Record::to_kv),
    };
    delivery.events().map(message).collect()
}

/// Splits a response of at least `limit` bytes into fragments below that size, with at least one
/// event each.
fn split(mut whole: WatchResponse, limit: usize) -> VecDeque<WatchResponse> {
    if whole.events.len() < 2 || whole.encoded_len() < limit {
        return VecDeque::from([whole]);
    }
    let all = std::mem::take(&mut whole.events);
    let overhead = whole.encoded_len() + 2;
    let mut fragments = VecDeque::new();
    let (mut events, mut size) = (Vec::new(), overhead);
    for event in all {
        let len = event.encoded_len();
        let field = 1 + prost::length_delimiter_len(len) + len;
        if !events.is_empty() && size + field >= limit {
            fragments.push_back(WatchResponse {
                events: std::mem::take(&mut events),
                fragment: true,
                ..whole.clone()
            });
            size = overhead;
        }
        size += field;
        events.push(event);
    }
    fragments.push_back(WatchResponse { events, ..whole });
    fragments
}

impl<R> Stream for WatchResponses<R>
where
    R: Stream<Item = Result<WatchRequest, Status>> + Unpin,
{
    type Item = Result<WatchResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(fragment) = this.fragments.pop_front() {
            return Poll::Ready(Some(Ok(fragment)));
        }
        let mut taken = 0;
        while let Some(requests) = &mut this.requests {
            match Pin::new(requests).poll_next(context) {
                Poll::Ready(Some(Ok(request))) => this.handle_request(request),
                Poll::Ready(Some(Err(status))) => {
                    return Poll::Ready(Some(Err(match status.code() {
                        Code::Cancelled => Refusal::WatchCanceled.into(),
                        _ => grpc::into_grpc_go_status(status),
                    })));
                }
                Poll::Ready(None) => this.requests = None,
                Poll::Pending => break,
            }
            taken += 1;
            // If the client does not read the responses, its requests are not read either.
            if taken == MAX_REQUESTS_PER_POLL || this.watchers.is_full() {
                context.waker().wake_by_ref();
                break;
            }
        }
        while this.progress.as_mut().poll(context).is_ready() {
            let due = Instant::now() + this.progress_interval;
            this.progress.as_mut().reset(due);
            this.watchers.tick_progress();
        }
        this.watchers
            .poll_next(context)
            .map(|notice| Some(Ok(this.response(notice))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(sizes: &[usize]) -> WatchResponse {
        let event = |size: &usize| Event {
            kv: Some(etcd_api::proto::mvccpb::KeyValue {
                value: vec![1; *size].into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        WatchResponse {
            watch_id: 3,
            events: sizes.iter().map(event).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_response_is_split_only_when_large_and_with_several_events() {
        assert_eq!(split(response(&[10, 10]), 1000), [response(&[10, 10])]);
        assert_eq!(split(response(&[5000]), 1000), [response(&[5000])]);
    }

    #[test]
    fn fragments_are_below_the_limit_in_order_and_only_the_last_is_unmarked() {
        let whole = response(&[400, 500, 300, 2000, 10, 10]);
        let fragments = split(whole.clone(), 1000);
        let sizes: Vec<_> = fragments
            .iter()
            .map(|fragment| fragment.events.len())
            .collect();
        assert_eq!(sizes, [2, 1, 1, 2], "a large event travels alone");
        for fragment in &fragments {
            assert!(fragment.encoded_len() < 1000 || fragment.events.len() == 1);
            assert_eq!(fragment.watch_id, 3);
        }
        assert!(
            fragments
                .iter()
                .rev()
                .skip(1)
                .all(|fragment| fragment.fragment)
        );
        assert!(!fragments.back().expect("a last piece").fragment);
        let joined: Vec<_> = fragments
            .into_iter()
            .flat_map(|fragment| fragment.events)
            .collect();
        assert_eq!(joined, whole.events);
    }
}
