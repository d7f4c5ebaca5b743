//! The thread of watchers through a Kubernetes API. Each has a connection of its own, as an
//! informer does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tokio::sync::{oneshot, watch};

use super::resume::{Backoff, CONFIRM_TIMEOUT, is_over};
use super::{DeliveryError, Last, MAX_EVENTS, Received, Watcher, all_in_time, at, last_is_due};
use crate::endpoint::TargetEndpoint;
use crate::operation::list::{ListCase, ListError};
use crate::operation::watch_api::{ApiWatch, Resumed};
use crate::record::{LatencyHistogram, Live};

/// Settings of watchers through an API, which watch the objects that loads make.
#[derive(Debug, Clone)]
pub struct ApiWatching {
    /// The collection to watch.
    pub case: ListCase,
    /// The API's endpoint.
    pub endpoint: TargetEndpoint,
    /// The number of watchers.
    pub count: u32,
    /// The prefix of the names of the objects. Events of other objects are only counted.
    pub made: String,
    /// How often the watchers drop their connections, if they do. They resume from the revision
    /// that they have reached.
    pub cut_every: Option<Duration>,
    /// The counters of received events.
    pub live: Arc<Live>,
}

/// Creates the watchers, reports that in `created`, and reads until each watcher has reached the
/// revision in `until`.
pub(super) async fn watching(
    watching: &ApiWatching,
    created: oneshot::Sender<()>,
    until: watch::Receiver<Option<Last>>,
) -> Result<Vec<Received>, DeliveryError> {
    let ApiWatching {
        case,
        endpoint,
        count,
        made,
        ..
    } = watching;
    let revision = ApiWatch::current_revision(case, endpoint).await?;
    let begun = (0..*count).map(|_| ApiWatch::begin(case, endpoint, made, revision));
    let watches = try_join_all(begun).await?;
    // The caller may have given up. In that case `until` closes.
    created.send(()).ok();
    let kept = AtomicUsize::new(0);
    let reading = watches.into_iter().zip(0..).map(|(watch, number)| {
        let reader = Reader {
            watching,
            kept: &kept,
            watch,
            watcher: Watcher::behind(number, revision),
            cuts: LatencyHistogram::default(),
            lost: 0,
            backoff: Backoff::default(),
        };
        reader.read(until.clone())
    });
    let received = try_join_all(reading).await?;
    all_in_time(received, *until.borrow())
}

/// Why a watch must be resumed with another request.
#[derive(Debug)]
enum End {
    /// The watcher has closed its connection.
    Cut,
    /// The server has ended the watch.
    ByServer,
    /// The connection broke, or the server reported that the events are compacted.
    Failed(ListError),
}

/// The reader of one watch.
struct Reader<'a> {
    watching: &'a ApiWatching,
    /// The number of events kept by all watchers.
    kept: &'a AtomicUsize,
    watch: ApiWatch,
    watcher: Watcher,
    cuts: LatencyHistogram,
    /// Interruptions that the watchers did not cause.
    lost: u64,
    backoff: Backoff,
}

impl Reader<'_> {
    /// Records events and resumes interrupted watches, until the watcher has reached the revision
    /// in `until`, the deadline passes, or the caller gives up.
    async fn read(
        mut self,
        mut until: watch::Receiver<Option<Last>>,
    ) -> Result<Received, DeliveryError> {
        let cut_every = self.watching.cut_every;
        let cut_in = |every: Duration| tokio::time::Instant::now() + every;
        let mut cut_at = cut_every.map(cut_in);
        loop {
            let last = *until.borrow_and_update();
            if self.watcher.has(last) {
                break;
            }
            let mut revisions = Vec::new();
            let end = tokio::select! {
                read = self.watch.next(|revision| revisions.push(revision)) => match read {
                    Ok(true) => None,
                    Ok(false) => Some(End::ByServer),
                    Err(error) if may_go_on(&error) => Some(End::Failed(error)),
                    Err(error) => return Err(error.into()),
                },
                changed = until.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => break,
                },
                () = at(cut_at), if last.is_none() => Some(End::Cut),
                () = at(last.map(|last| last.by)) => break,
            };
            // Includes events that arrived before the one that ends the watch.
            self.note(&revisions)?;
            if let Some(end) = end {
                tokio::select! {
                    went_on = self.go_on(end) => went_on?,
                    () = last_is_due(&mut until) => break,
                }
                cut_at = cut_every.map(cut_in);
            }
        }
        Ok(Received {
            watchers: vec![self.watcher],
            cuts: self.cuts,
            lost: self.lost,
            foreign: self.watch.foreign,
        })
    }

    fn note(&mut self, revisions: &[i64]) -> Result<(), DeliveryError> {
        let at = Instant::now();
        let count = revisions.len();
        self.watching.live.delivered(count as u64);
        if self.kept.fetch_add(count, Ordering::Relaxed) + count > MAX_EVENTS {
            return Err(DeliveryError::TooMany);
        }
        if count > 0 {
            self.backoff.reset();
        }
        let mut revisions = revisions.iter();
        revisions.try_for_each(|revision| self.watcher.note(*revision, at))
    }

    /// Resumes after the last revision on a new connection. Lists again if the events after it are
    /// compacted.
    async fn go_on(&mut self, end: End) -> Result<(), DeliveryError> {
        let begun = tokio::time::Instant::now();
        self.lost += u64::from(!matches!(end, End::Cut));
        let mut expired = match end {
            End::Cut => {
                self.backoff.reset();
                false
            }
            End::ByServer => {
                self.watch.ended_by_server()?;
                false
            }
            End::Failed(error) => error.is_compacted(),
        };
        loop {
            self.backoff.pause().await;
            let attempt = async {
                match expired {
                    true => self.watch.list_again().await,
                    false => self.watch.go_on().await,
                }
            };
            let within = CONFIRM_TIMEOUT.as_secs();
            let late = |_| {
                let why = format!("no response from the API within {within} s");
                Err(ListError::Unreachable(why))
            };
            let resumed = tokio::time::timeout(CONFIRM_TIMEOUT, attempt).await;
            match resumed.unwrap_or_else(late) {
                Ok(Resumed { listed_at }) => {
                    if let Some(revision) = listed_at {
                        self.watcher.listed(revision);
                    }
                    self.cuts.record(begun.elapsed());
                    return Ok(());
                }
                Err(error) if may_go_on(&error) && !is_over(begun) => {
                    expired |= error.is_compacted();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns whether a watcher may resume after this error, from the revision that it has reached or
/// by a list.
fn may_go_on(error: &ListError) -> bool {
    let is_broken = matches!(
        error,
        ListError::Unreachable(_) | ListError::Overloaded(_) | ListError::CutOff { .. }
    );
    is_broken || error.is_compacted()
}
