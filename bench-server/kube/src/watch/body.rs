//! The body of a watch, encoded as the connection polls it, so that a slow client delays only
//! itself.
//!
//! The initial events are read from a snapshot, one chunk at a time. The events since that snapshot
//! are read from the cache's history. Only a watch that has caught up subscribes to live events, so
//! no events are queued while a long initial list is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use etcd_api::keys::{KeyRange, prefix_end};
use http_body::{Body, Frame as HttpFrame};
use kube_api::Status;
use memory::in_flight;
use memory::open_lists::OpenList;
use tokio::time::{Instant, Sleep};
use wire::frame::Frame;

use super::event_buffer::EventBuffer;
use super::event_encoder::EventEncoder;
use super::gzip::GzipMembers;
use super::plan::WatchPlan;
use super::start::{EventSource, WatchStart};
use super::uncached::StorageWatch;
use crate::cache::CatchUp;
use crate::cache::broadcaster::Subscription;
use crate::cache::broadcaster::interest::Interest;
use crate::cache::event::EventType;
use crate::cache::watcher_queue::{TryRecv, WatcherQueue};
use crate::metrics::watch::{OpenWatch, WatchMetrics};
use crate::resource::object::Object;
use crate::shard::object_set::ObjectIter;

/// The time between bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// The time between the last bookmark and the end of the watch.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The time after which a bookmark is tried again, if a transaction's events are just being
/// delivered.
const BOOKMARK_RETRY: Duration = Duration::from_secs(1);
/// The number of events that are read from the history at once.
const EVENTS_PER_READ: usize = 8;
/// The number of objects and past events that are read before the body yields to other connections
/// of its thread.
const OBJECTS_PER_TURN: usize = 4_096;

/// The phase of a watch: what it sends next.
#[derive(Debug)]
enum Phase {
    /// An event for each existing object, read from a snapshot that is counted as an open list.
    Initial {
        objects: ObjectIter,
        _open: Option<OpenList>,
    },
    /// Past events, from the cache's history.
    CatchUp,
    /// Events as they happen.
    Live(Live),
    /// An error, after which the watch ends.
    Failed(Status),
    Ended,
}

/// The source of live events.
#[derive(Debug)]
enum Live {
    Cache(Subscription),
    Etcd(StorageWatch),
}

impl Live {
    fn queue(&self) -> &WatcherQueue {
        match self {
            Self::Cache(subscription) => &subscription.queue,
            Self::Etcd(watch) => &watch.queue,
        }
    }
}

/// The body of a watch.
#[derive(Debug)]
pub struct WatchBody {
    source: Option<EventSource>,
    interest: Arc<Interest>,
    encoder: EventEncoder,
    phase: Phase,
    /// The revision up to which all events have been sent or do not have to be sent.
    covered: i64,
    /// The revision of the last event that was sent.
    sent: i64,
    annotated_end: bool,
    /// The time of the next bookmark.
    bookmark: Option<Instant>,
    /// The revision of the last bookmark. Later bookmarks are never lower.
    bookmarked: i64,
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
    gzip: Option<GzipMembers>,
    metrics: WatchMetrics,
    began: Instant,
    _open: OpenWatch,
}

impl WatchBody {
    pub(super) fn new(
        plan: WatchPlan,
        interest: Arc<Interest>,
        encoder: EventEncoder,
        start: Result<WatchStart, Status>,
        metrics: WatchMetrics,
        began: Instant,
    ) -> Self {
        let (source, phase, covered) = match start {
            Err(status) => (None, Phase::Failed(status), 0),
            Ok(WatchStart {
                objects,
                revision,
                source,
                open,
            }) => {
                let phase = match objects {
                    // The client requested a negative timeout.
                    _ if plan.timeout.is_zero() => Phase::Ended,
                    Some(objects) => {
                        let end = prefix_end(interest.namespace_prefix().as_bytes());
                        let range = KeyRange::new(interest.namespace_prefix().as_bytes(), &end);
                        Phase::Initial {
                            objects: objects.iter(range),
                            _open: open,
                        }
                    }
                    None => Phase::CatchUp,
                };
                (Some(source), phase, revision)
            }
        };
        let deadline = began + plan.timeout;
        let mut body = Self {
            _open: metrics.open(
                encoder.resource(),
                !interest.namespace_prefix().is_empty(),
                interest.is_sharded(),
            ),
            source,
            interest,
            phase,
            covered,
            sent: 0,
            annotated_end: plan.annotated_end,
            bookmark: None,
            bookmarked: 0,
            deadline,
            timer: Box::pin(tokio::time::sleep_until(deadline)),
            gzip: None,
            encoder,
            metrics,
            began,
        };
        if plan.bookmarks {
            body.schedule_bookmark(began + BOOKMARK_PERIOD, began);
        }
        body
    }

    /// Returns the watch with gzip compression.
    pub(super) fn compressed(mut self) -> Self {
        self.gzip = Some(GzipMembers::default());
        self
    }

    /// Returns whether the body is compressed.
    pub fn is_compressed(&self) -> bool {
        self.gzip.is_some()
    }

    /// Returns the time at which the watch ends, if the client reads.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the media type of the response.
    pub fn media_type(&self) -> &'static str {
        self.encoder.media_type()
    }

    /// Schedules the next bookmark for `at`, or for shortly before the end if that is earlier. No
    /// bookmark follows that one.
    fn schedule_bookmark(&mut self, at: Instant, now: Instant) {
        let last = self.deadline.checked_sub(LAST_BOOKMARK);
        self.bookmark = last.filter(|last| *last > now).map(|last| last.min(at));
        let wake = self.bookmark.unwrap_or(self.deadline);
        self.timer.as_mut().reset(wake);
    }

    /// Collects the available events into a chunk of the body.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        let mut out = match &mut self.phase {
            Phase::Initial { objects, .. } => match objects.is_exhausted() {
                true => EventBuffer::new(),
                false => self.encoder.initial_buffer(),
            },
            _ => EventBuffer::new(),
        };
        let (mut read, mut initial_events) = (0, 0);
        let pending = loop {
            if out.is_full() {
                break false;
            }
            if read >= OBJECTS_PER_TURN {
                context.waker().wake_by_ref();
                break true;
            }
            match &mut self.phase {
                Phase::Initial { objects, .. } => {
                    if in_flight::is_over_limit()
                        && self.encoder.copies()
                        && objects.clone().next_ref().is_some_and(Object::is_large)
                        && waits_for_room(&out, self.deadline, &mut self.timer, context)
                    {
                        break true;
                    }
                    read += 1;
                    match objects.next_ref() {
                        Some(object) if self.interest.passes(object) => {
                            self.encoder.event(&mut out, EventType::Added, object);
                            initial_events += 1;
                        }
                        Some(_) => {}
                        None => self.end_initial(&mut out),
                    }
                }
                Phase::CatchUp => match self.catch_up(&mut out, context) {
                    Poll::Ready(events) => read += events,
                    Poll::Pending => break true,
                },
                Phase::Live(_) => {
                    if self.poll_live(&mut out, context).is_pending() {
                        break true;
                    }
                }
                Phase::Failed(status) => {
                    self.encoder.error(&mut out, status);
                    self.phase = Phase::Ended;
                }
                Phase::Ended => break false,
            }
            if Instant::now() >= self.deadline {
                self.phase = Phase::Ended;
            }
        };
        if initial_events > 0 {
            self.metrics
                .initial_events(self.encoder.resource(), initial_events);
        }
        if out.is_empty() {
            return match pending {
                true => Poll::Pending,
                false => Poll::Ready(self.gzip.as_mut().and_then(GzipMembers::end)),
            };
        }
        let frame = out.finish();
        Poll::Ready(Some(match &mut self.gzip {
            Some(members) => members.piece(frame),
            None => frame,
        }))
    }

    fn end_initial(&mut self, out: &mut EventBuffer) {
        self.encoder.end_initial_events();
        if self.annotated_end {
            self.encoder.bookmark(out, self.covered, true);
            self.bookmarked = self.covered;
        }
        let resource = self.encoder.resource();
        self.metrics.initial_done(resource, self.began.elapsed());
        self.phase = Phase::CatchUp;
    }

    /// Sends the next past events. Returns how many were read. Pending if they are large, and the
    /// connection has no room for them.
    fn catch_up(&mut self, out: &mut EventBuffer, context: &mut Context<'_>) -> Poll<usize> {
        let (cache, generation) = match &self.source {
            Some(EventSource::Cache(cache, generation)) => (cache, *generation),
            Some(EventSource::Etcd(watcher)) => {
                let watch = watcher.watch(self.covered, self.interest.clone());
                self.phase = Phase::Live(Live::Etcd(watch));
                return Poll::Ready(0);
            }
            None => {
                self.phase = Phase::Ended;
                return Poll::Ready(0);
            }
        };
        let is_short = self.encoder.copies() && in_flight::is_over_limit();
        let most = if is_short { 1 } else { EVENTS_PER_READ };
        Poll::Ready(
            match cache.catch_up(generation, self.covered, &self.interest, most) {
                CatchUp::Events(events) => {
                    let mut objects = events.iter().filter_map(|event| {
                        let event_type = self.interest.event_type(event)?;
                        event.object(event_type)
                    });
                    // They are read again when there is room.
                    if is_short
                        && objects.any(Object::is_large)
                        && waits_for_room(out, self.deadline, &mut self.timer, context)
                    {
                        return Poll::Pending;
                    }
                    let mut filtered = 0;
                    for event in &events {
                        filtered += self.interest.shard_misses(event);
                        if let Some(event_type) = self.interest.event_type(event)
                            && let Some(object) = event.object(event_type)
                        {
                            self.encoder.event(out, event_type, object);
                            self.sent = event.revision();
                        }
                    }
                    self.metrics.filtered(self.encoder.resource(), filtered);
                    let last = events.last().map(|event| event.revision());
                    self.covered = last.unwrap_or(self.covered);
                    events.len()
                }
                CatchUp::Subscribed {
                    subscription,
                    revision,
                } => {
                    self.covered = self.covered.max(revision);
                    self.phase = Phase::Live(Live::Cache(subscription));
                    0
                }
                CatchUp::Lost => {
                    self.phase = Phase::Ended;
                    0
                }
            },
        )
    }

    /// Sends the available live events. Pending if there are no more.
    fn poll_live(&mut self, out: &mut EventBuffer, context: &mut Context<'_>) -> Poll<()> {
        let Phase::Live(live) = &self.phase else {
            return Poll::Ready(());
        };
        // Read before the queue is emptied, so that every event up to this revision has been sent
        // once the queue is empty.
        let dispatched_revision = match (live, &self.source) {
            (Live::Etcd(watch), _) => watch.revision(),
            (Live::Cache(_), Some(EventSource::Cache(cache, _))) => cache.dispatched_revision(),
            _ => self.covered,
        };
        loop {
            if out.is_full() {
                return Poll::Ready(());
            }
            match live.queue().try_recv(Some(context)) {
                TryRecv::Delivery(delivery) => {
                    let event = delivery.event;
                    // The event has already been read from the history.
                    if event.event().revision() <= self.covered {
                        continue;
                    }
                    let (watch, resource) = (&self.metrics, self.encoder.resource());
                    let made = || watch.encoded(resource);
                    out.shared(self.encoder.shared(&event, delivery.event_type, made));
                    self.sent = event.event().revision();
                }
                TryRecv::Closed => {
                    let failure = match live {
                        Live::Etcd(watch) => watch.failure(),
                        Live::Cache(_) => None,
                    };
                    self.phase = match failure {
                        Some(status) => Phase::Failed(status),
                        None => Phase::Ended,
                    };
                    return Poll::Ready(());
                }
                TryRecv::Empty => break,
            }
        }
        let now = Instant::now();
        if now >= self.deadline {
            return Poll::Ready(());
        }
        if self.bookmark.is_some_and(|due| now >= due) {
            self.send_bookmark(out, dispatched_revision, now);
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                // After the last bookmark, only the end of the watch is left.
                let wake = self.bookmark.unwrap_or(self.deadline);
                self.timer.as_mut().reset(wake);
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn send_bookmark(&mut self, out: &mut EventBuffer, dispatched_revision: i64, now: Instant) {
        let revision = dispatched_revision.max(self.covered).max(self.bookmarked);
        // The bookmark would be wrong if the watch began at a future revision that has not been
        // reached, or if only a part of a transaction's events has arrived.
        let is_true = dispatched_revision >= self.sent
            && (dispatched_revision >= self.covered || self.is_past());
        if is_true {
            self.encoder.bookmark(out, revision, false);
            self.bookmarked = revision;
            self.schedule_bookmark(now + BOOKMARK_PERIOD, now);
        } else {
            self.schedule_bookmark(now + BOOKMARK_RETRY, now);
        }
    }

    /// Returns whether the cache has reached the covered revision.
    fn is_past(&self) -> bool {
        match &self.source {
            Some(EventSource::Cache(cache, _)) => self.covered <= cache.snapshot().revision,
            _ => false,
        }
    }
}

/// Returns whether a large object has to wait: until what was collected is sent, or until the
/// connection has room. A watch that ends meanwhile does not wait.
fn waits_for_room(
    out: &EventBuffer,
    deadline: Instant,
    timer: &mut Pin<Box<Sleep>>,
    context: &mut Context<'_>,
) -> bool {
    if Instant::now() >= deadline {
        return false;
    }
    let waits = !out.is_empty() || in_flight::poll_room(context).is_pending();
    if waits && timer.as_mut().poll(context).is_ready() {
        context.waker().wake_by_ref();
    }
    waits
}

impl Body for WatchBody {
    type Data = Frame;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<HttpFrame<Frame>, Infallible>>> {
        let piece = self.poll_piece(context);
        piece.map(|piece| piece.map(|frame| Ok(HttpFrame::data(frame))))
    }
}
