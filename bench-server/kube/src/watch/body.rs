//! A watch as it is sent: made as the connection takes it, so that a slow client slows nobody but itself.
//!
//! The initial events come from a view, one piece at a time. What has happened meanwhile comes from the
//! cache's ring, and only a watch that has caught up joins those to whom events are handed out: a long list
//! needs no queue to wait in.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use etcd_api::keys::{KeyRange, prefix_end};
use http_body::{Body, Frame as HttpFrame};
use kube_api::Status;
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
use crate::shard::object_set::ObjectIter;

/// Time between bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// The last bookmark comes so long before the end.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Time until a bookmark is tried again that could not be sent: a transaction was being handed out.
const BOOKMARK_RETRY: Duration = Duration::from_secs(1);
/// Events taken from the ring at once.
const HISTORY_STEP: usize = 8;
/// Objects and old events that are looked at before other connections of the thread get their turn.
const TURN: usize = 4_096;

/// What comes next.
#[derive(Debug)]
enum Phase {
    /// The objects there are, read from a state that is counted as a list's while they are sent.
    Initial {
        objects: ObjectIter,
        _open: Option<OpenList>,
    },
    /// What has happened since.
    CatchUp,
    /// What happens now.
    Live(Live),
    /// An error, then nothing.
    Failed(Status),
    Ended,
}

/// A place among those to whom events are handed out.
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

/// A watch that is being sent.
#[derive(Debug)]
pub struct WatchBody {
    source: Option<EventSource>,
    interest: Arc<Interest>,
    encoder: EventEncoder,
    phase: Phase,
    /// Everything up to this revision was sent, or is not wanted.
    covered: i64,
    /// Revision of the last event that was sent.
    sent: i64,
    annotated_end: bool,
    /// When the next bookmark is due.
    bookmark: Option<Instant>,
    /// Revision of the last bookmark that was sent; none after it is lower.
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
                state,
                revision,
                source,
                open,
            }) => {
                let phase = match state {
                    // Asked for with a timeout below zero.
                    _ if plan.timeout.is_zero() => Phase::Ended,
                    Some(objects) => {
                        let end = prefix_end(interest.below().as_bytes());
                        let range = KeyRange::new(interest.below().as_bytes(), &end);
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
                !interest.below().is_empty(),
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

    /// The same, compressed.
    pub(super) fn compressed(mut self) -> Self {
        self.gzip = Some(GzipMembers::default());
        self
    }

    /// Whether it is sent compressed.
    pub fn is_compressed(&self) -> bool {
        self.gzip.is_some()
    }

    /// When it ends, if it is read.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Media type of the answer.
    pub fn media_type(&self) -> &'static str {
        self.encoder.media_type()
    }

    /// The next bookmark comes at `at`, or shortly before the end when that is sooner; none after that one.
    fn schedule_bookmark(&mut self, at: Instant, now: Instant) {
        let last = self.deadline.checked_sub(LAST_BOOKMARK);
        self.bookmark = last.filter(|last| *last > now).map(|last| last.min(at));
        let wake = self.bookmark.unwrap_or(self.deadline);
        self.timer.as_mut().reset(wake);
    }

    /// Gathers what there is.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        let mut out = match &mut self.phase {
            Phase::Initial { objects, .. } => match objects.is_exhausted() {
                true => EventBuffer::new(),
                false => self.encoder.initial_buffer(),
            },
            _ => EventBuffer::new(),
        };
        let (mut looked, mut shown) = (0, 0);
        let pending = loop {
            if out.is_full() {
                break false;
            }
            if looked >= TURN {
                context.waker().wake_by_ref();
                break true;
            }
            match &mut self.phase {
                Phase::Initial { objects, .. } => {
                    looked += 1;
                    match objects.next_ref() {
                        Some(object) if self.interest.passes(object) => {
                            self.encoder.event(&mut out, EventType::Added, object);
                            shown += 1;
                        }
                        Some(_) => {}
                        None => self.end_initial(&mut out),
                    }
                }
                Phase::CatchUp => looked += self.catch_up(&mut out),
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
        if shown > 0 {
            self.metrics.initial_events(self.encoder.resource(), shown);
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

    /// Sends some of what lies behind; answers how much was looked at.
    fn catch_up(&mut self, out: &mut EventBuffer) -> usize {
        let (cache, generation) = match &self.source {
            Some(EventSource::Cache(cache, generation)) => (cache, *generation),
            Some(EventSource::Etcd(watcher)) => {
                let watch = watcher.watch(self.covered, self.interest.clone());
                self.phase = Phase::Live(Live::Etcd(watch));
                return 0;
            }
            None => {
                self.phase = Phase::Ended;
                return 0;
            }
        };
        match cache.catch_up(generation, self.covered, &self.interest, HISTORY_STEP) {
            CatchUp::Events(events) => {
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
            CatchUp::Joined {
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
        }
    }

    /// Sends what waits; pending when nothing does.
    fn poll_live(&mut self, out: &mut EventBuffer, context: &mut Context<'_>) -> Poll<()> {
        let Phase::Live(live) = &self.phase else {
            return Poll::Ready(());
        };
        // Read before the queue is emptied: what was handed out by then has been sent when it is empty.
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
                    // What came from the ring is not sent again.
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
                // Behind the last bookmark only the end is waited for.
                let wake = self.bookmark.unwrap_or(self.deadline);
                self.timer.as_mut().reset(wake);
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn send_bookmark(&mut self, out: &mut EventBuffer, dispatched_revision: i64, now: Instant) {
        let revision = dispatched_revision.max(self.covered).max(self.bookmarked);
        // A watch from the future has seen nothing yet, and of a transaction only a part may be here.
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

    /// Whether what is covered has happened.
    fn is_past(&self) -> bool {
        match &self.source {
            Some(EventSource::Cache(cache, _)) => self.covered <= cache.snapshot().revision,
            _ => false,
        }
    }
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
