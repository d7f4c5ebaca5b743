//! A watch through a Kubernetes API of the objects that loads create, from a revision on.
//!
//! A server ends a watch that falls behind, and every watch after some time, and connections break.
//! The watcher then resumes after the last revision that it has received, as an informer does, and
//! lists again if the events after it are compacted (410).

use kube_api::client::Options;
use kube_api::metadata::{Metadata, is_being_deleted};
use workloads::scenario::Media;

use super::list::kube::client::Kube;
use super::list::kube::frames::{Event, Frames};
use super::list::kube::response::Response;
use super::list::{ListCase, ListError};
use crate::endpoint::TargetEndpoint;
use crate::verify::malformed;

/// The timeout that is requested for a watch, longer than any case.
const TIMEOUT_S: u32 = 6 * 3_600;

/// How often in a row a server may end a watch without having sent anything.
const MAX_ENDS: u32 = 10;

/// A resumed watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resumed {
    /// The revision of the list after which it resumed; `None` if it needed no list.
    pub(crate) listed_at: Option<i64>,
}

/// One watcher, with a connection of its own.
pub(crate) struct ApiWatch {
    body: Response,
    frames: Frames,
    kube: Kube,
    /// The prefix of the names of the loads' objects.
    made: String,
    /// The number of events of other objects so far.
    pub(crate) foreign: u64,
    /// The revision of the last event, or the one after which the watch began.
    revision: i64,
    /// How often the server ended the watch since it last sent something.
    ends: u32,
}

impl ApiWatch {
    /// Returns the server's current revision.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached or refuses.
    pub(crate) async fn current_revision(
        case: &ListCase,
        endpoint: &TargetEndpoint,
    ) -> Result<i64, ListError> {
        Kube::connect(case, endpoint)
            .await?
            .current_revision()
            .await
    }

    /// Starts a watch of the changes after a revision, for objects whose names begin with `made`.
    /// Returns when the server has accepted it.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached or refuses.
    pub(crate) async fn begin(
        case: &ListCase,
        endpoint: &TargetEndpoint,
        made: &str,
        revision: i64,
    ) -> Result<Self, ListError> {
        let mut case = case.clone();
        case.parameters.media = Media::Protobuf;
        case.parameters.options = Options::default();
        let mut kube = Kube::connect(&case, endpoint).await?;
        Ok(Self {
            body: kube.get(query(revision)).await?,
            frames: Frames::default(),
            kube,
            made: made.to_owned(),
            foreign: 0,
            revision,
            ends: 0,
        })
    }

    /// Records that the server has ended the watch.
    ///
    /// # Errors
    /// [`ListError`] if the server did so too often without sending anything.
    pub(crate) fn ended_by_server(&mut self) -> Result<(), ListError> {
        self.ends += 1;
        match self.ends > MAX_ENDS {
            true => Err(malformed("the server ended the watch again and again").into()),
            false => Ok(()),
        }
    }

    /// Resumes after the last revision, on a new connection.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached or refuses.
    pub(crate) async fn go_on(&mut self) -> Result<Resumed, ListError> {
        self.kube.connection.cancel();
        self.frames = Frames::default();
        self.body = self.kube.get(query(self.revision)).await?;
        Ok(Resumed { listed_at: None })
    }

    /// Resumes after the server's current revision, on a new connection. These watchers need
    /// nothing else of a list.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached, refuses, or is behind what the watcher has
    /// received.
    pub(crate) async fn list_again(&mut self) -> Result<Resumed, ListError> {
        self.kube.connection.cancel();
        let revision = self.kube.current_revision().await?;
        if revision < self.revision {
            let text = format!(
                "a list of revision {revision} after an event of revision {}",
                self.revision
            );
            return Err(malformed(&text).into());
        }
        self.revision = revision;
        self.go_on().await?;
        Ok(Resumed {
            listed_at: Some(revision),
        })
    }

    /// Reads the next events. Returns false if the server has ended the watch. Passes the
    /// resourceVersion of each event to `on` that reports an object created or changed by a load of
    /// this run, and counts the events of other objects. Skips deletions, and changes that mark an
    /// object for deletion: the response to a deletion does not have its revision, and apiservers
    /// mark only pods. Cancel-safe.
    ///
    /// # Errors
    /// [`ListError`] when the connection breaks, or an event is invalid.
    pub(crate) async fn next(&mut self, mut on: impl FnMut(i64)) -> Result<bool, ListError> {
        let Some(bytes) = self.body.next().await? else {
            return Ok(false);
        };
        self.ends = 0;
        let resource = &self.kube.resource;
        let (last, foreign) = (&mut self.revision, &mut self.foreign);
        let made = self.made.as_bytes();
        self.frames.feed(&bytes, |frame| {
            let event = Event::read(frame, resource)?;
            let is_write = match event.kind {
                b"ADDED" | b"MODIFIED" => {
                    !is_being_deleted(event.object).map_err(|e| malformed(&e.to_string()))?
                }
                b"DELETED" | b"BOOKMARK" => false,
                _ => return Err(event.unexpected()),
            };
            let metadata = Metadata::read(event.object).map_err(|e| malformed(&e.to_string()))?;
            let version = std::str::from_utf8(metadata.resource_version).ok();
            let revision = version.and_then(|version| version.parse().ok());
            let no_number = || malformed("an event's resourceVersion is not a number");
            *last = revision.ok_or_else(no_number)?;
            match metadata.name.starts_with(made) {
                true if is_write => on(*last),
                false if event.kind != b"BOOKMARK" => *foreign += 1,
                _ => {}
            }
            Ok(())
        })?;
        Ok(true)
    }
}

/// Returns the query of a watch after a revision.
fn query(revision: i64) -> String {
    format!("watch=true&resourceVersion={revision}&timeoutSeconds={TIMEOUT_S}")
}
