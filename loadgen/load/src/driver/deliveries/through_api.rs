//! The thread of watchers through a Kubernetes API, each with a connection of its own, as an
//! informer has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::future::try_join_all;
use tokio::sync::{oneshot, watch};

use super::{DeliveryError, Last, MOST_EVENTS, Received, Watcher, all_in_time, at};
use crate::endpoint::Reach;
use crate::operation::list::ListCase;
use crate::operation::watch_api::ApiWatch;
use crate::record::{LatencyHistogram, Live};

/// Watchers through an API to be created: of the objects that loads make.
#[derive(Debug, Clone)]
pub struct ApiWatching {
    /// The collection.
    pub case: ListCase,
    /// Where.
    pub reach: Reach,
    /// How many.
    pub count: u32,
    /// What the names of the objects begin with; events of others are only counted.
    pub made: String,
    /// Where events are counted when they come.
    pub live: Arc<Live>,
}

/// Creates the watchers, says so in `created`, and reads until each has the revision that `until`
/// asks for.
pub(super) async fn watching(
    watching: &ApiWatching,
    created: oneshot::Sender<()>,
    until: watch::Receiver<Option<Last>>,
) -> Result<Vec<Received>, DeliveryError> {
    let ApiWatching {
        case,
        reach,
        count,
        made,
        ..
    } = watching;
    let revision = ApiWatch::current_revision(case, reach).await?;
    let begun = (0..*count).map(|_| ApiWatch::begin(case, reach, made, revision));
    let watches = try_join_all(begun).await?;
    // Whoever waited may have given up; then `until` closes.
    created.send(()).ok();
    let kept = AtomicUsize::new(0);
    let reading = watches.into_iter().zip(0..).map(|(watch, number)| {
        let watcher = Watcher {
            number,
            ..Watcher::default()
        };
        read(watch, watcher, &watching.live, &kept, until.clone())
    });
    let received = try_join_all(reading).await?;
    all_in_time(received, *until.borrow())
}

/// Notes events, going on where the server ends the watch, until the watcher has the revision that
/// `until` asks for, or it does not come in time, or the caller has given up.
async fn read(
    mut watch: ApiWatch,
    mut watcher: Watcher,
    live: &Live,
    kept: &AtomicUsize,
    mut until: watch::Receiver<Option<Last>>,
) -> Result<Received, DeliveryError> {
    let mut cuts = LatencyHistogram::default();
    loop {
        let last = *until.borrow_and_update();
        if watcher.has(last) {
            break;
        }
        let mut revisions = Vec::new();
        tokio::select! {
            read = watch.next(|revision| revisions.push(revision)) => if !read? {
                let ended = Instant::now();
                watch.go_on().await?;
                cuts.record(ended.elapsed());
                continue;
            },
            changed = until.changed() => match changed {
                Ok(()) => continue,
                Err(_) => break,
            },
            () = at(last.map(|last| last.by)) => break,
        }
        let at = Instant::now();
        live.delivered(revisions.len() as u64);
        if kept.fetch_add(revisions.len(), Ordering::Relaxed) + revisions.len() > MOST_EVENTS {
            return Err(DeliveryError::TooMany);
        }
        for revision in revisions {
            watcher.note(revision, at)?;
        }
    }
    Ok(Received {
        watchers: vec![watcher],
        cuts,
        foreign: watch.foreign,
    })
}
