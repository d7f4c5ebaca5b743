//! The Watch service: connects a client's requests with the store's notices.
//!
//! One object serves both directions: each poll first handles the client's requests, then sends
//! the notices of the store's queue. There is no task and no channel in between, so for a client
//! that does not read, the history is not read either. [`message`] has how a response is encoded.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::watch_create_request::FilterType;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use futures::Stream;
use http::Response;
use memory::in_flight;
use store::watch_hub::{MAX_BATCH_BYTES, Notice, WatchSpec, WatchStream};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tonic::codec::CompressionEncoding;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstDecoder;
use wire::grpc::{self, Encoding};
use wire::message_gate::MessageGate;

use super::Node;
use super::call_checks::deadline_exceeded;
use super::frames::{Frame, FrameBuilder, ResponseBody};
use message::WatchMessages;

mod message;
#[cfg(test)]
mod tests;

/// Maximum number of requests that are handled before a frame is sent.
const MAX_REQUESTS_PER_FRAME: usize = 128;

/// Serves one Watch call, whose requests may be compressed.
pub(super) fn serve<B>(
    node: Arc<Node>,
    encoding: Encoding,
    deadline: Option<Instant>,
    body: B,
) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let compression = match encoding {
        Encoding::Identity => None,
        Encoding::Gzip => Some(CompressionEncoding::Gzip),
    };
    let limit_bytes = node.max_message_bytes();
    let body = MessageGate::stream(body, limit_bytes);
    let decoder = ProstDecoder::<WatchRequest>::default();
    let requests = Streaming::new_request(decoder, body, compression, Some(limit_bytes));
    grpc::response(ResponseBody::streamed(WatchFrames::new(
        node, requests, deadline,
    )))
}

/// The frames of a watch. They end when the client disconnects or at the call's deadline, but not
/// when the client's requests end.
struct WatchFrames<R> {
    node: Arc<Node>,
    requests: Option<R>,
    watchers: WatchStream,
    /// The response that is being sent.
    messages: Option<WatchMessages>,
    /// The error that ends the watch, once the message that is being sent is whole.
    error: Option<Status>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Timer of the next periodic progress, which starts with the stream, as etcd's does.
    progress: Pin<Box<Sleep>>,
    /// The time between two of them.
    progress_interval: Duration,
}

impl<R> WatchFrames<R> {
    /// Returns the responses to `requests`.
    fn new(node: Arc<Node>, requests: R, deadline: Option<Instant>) -> Self {
        let progress_interval = with_jitter(node.progress_notify_interval);
        Self {
            watchers: node.store.watch(),
            node,
            requests: Some(requests),
            messages: None,
            error: None,
            deadline: deadline.map(|at| Box::pin(sleep_until(at))),
            progress: Box::pin(sleep(progress_interval)),
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

    /// Returns the response to send for a notice.
    fn messages(&self, notice: Notice) -> Result<WatchMessages, Status> {
        let response = |id, revision| WatchResponse {
            header: Some(self.node.header(revision)),
            watch_id: id,
            ..Default::default()
        };
        WatchMessages::without_events(&match notice {
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
                let response = response(delivery.id, delivery.revision);
                let limit_bytes = self.node.max_message_bytes();
                return WatchMessages::with_events(response, delivery, limit_bytes);
            }
        })
    }
}

impl<R> WatchFrames<R>
where
    R: Stream<Item = Result<WatchRequest, Status>> + Unpin,
{
    /// Handles the client's requests, at most [`MAX_REQUESTS_PER_FRAME`] of them. If the client
    /// does not read the responses, its requests are not read either.
    fn handle_requests(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        let mut handled = 0;
        while let Some(requests) = &mut self.requests {
            match Pin::new(requests).poll_next(context) {
                Poll::Ready(Some(Ok(request))) => self.handle_request(request),
                Poll::Ready(Some(Err(status))) => {
                    return Err(match status.code() {
                        Code::Cancelled => Refusal::WatchCanceled.into(),
                        _ => grpc::into_grpc_go_status(status),
                    });
                }
                Poll::Ready(None) => self.requests = None,
                Poll::Pending => break,
            }
            handled += 1;
            if handled == MAX_REQUESTS_PER_FRAME || self.watchers.is_full() {
                context.waker().wake_by_ref();
                break;
            }
        }
        Ok(())
    }

    /// Collects responses into a frame until it is full or no response is ready; `None` if there
    /// is none.
    fn collect(&mut self, context: &mut Context<'_>) -> Option<Frame> {
        let mut frame: Option<FrameBuilder> = None;
        loop {
            if let Some(messages) = &mut self.messages {
                let frame =
                    frame.get_or_insert_with(|| FrameBuilder::new(messages.expected_bytes()));
                if messages.fill(frame) {
                    self.messages = None;
                }
                if frame.is_full() {
                    break;
                }
                continue;
            }
            if self.error.is_some() {
                break;
            }
            let batch_bytes = in_flight::frame_bytes(MAX_BATCH_BYTES);
            let Poll::Ready(notice) = self.watchers.poll_next_within(context, batch_bytes) else {
                break;
            };
            match self.messages(notice) {
                Ok(messages) => self.messages = Some(messages),
                Err(status) => self.error = Some(status),
            }
        }
        frame.map(FrameBuilder::finish)
    }
}

impl<R> Stream for WatchFrames<R>
where
    R: Stream<Item = Result<WatchRequest, Status>> + Unpin,
{
    type Item = Result<Frame, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.error.is_none()
            && let Some(deadline) = &mut this.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            this.error = Some(deadline_exceeded());
        }
        if this.error.is_none()
            && let Err(status) = this.handle_requests(context)
        {
            this.error = Some(status);
        }
        while this.progress.as_mut().poll(context).is_ready() {
            let due = Instant::now() + this.progress_interval;
            this.progress.as_mut().reset(due);
            this.watchers.tick_progress();
        }
        match this.collect(context) {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => match this.error.take() {
                Some(status) => Poll::Ready(Some(Err(status))),
                None => Poll::Pending,
            },
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
