//! One worker's watch: the initial state and everything after it, also across lost connections.
//!
//! The worker holds what an informer would: for each object its revision, and a hash in place of
//! its bytes. Each event is compared with that: ADDED must be of a new object, MODIFIED and DELETED
//! of an existing one, and revisions must rise.
//!
//! - [`reshard_handover`]: takes over another shard

pub mod reshard_handover;

use std::collections::HashMap;
use std::time::Instant;

use measure::heap;
use twox_hash::XxHash3_64;
use workloads::Fingerprint;
use workloads::strategy::plain::WATCH_LIST_QUERY;
use workloads::writes::Effect;

use super::list::kube::client::Kube;
use super::list::kube::frames::{Event, Frames};
use super::list::kube::response::Response;
use super::list::kube::stored_bytes::{DecodedObject, ItemDecoder, ROOT};
use super::list::{ListCase, ListError};
use crate::endpoint::TargetEndpoint;
use crate::verify::{InvalidResponse, malformed};

/// An object that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldObject {
    /// The object's resourceVersion.
    pub revision: i64,
    /// The hash of its key and bytes, as in a [`Fingerprint`].
    pub hash: u64,
    /// The number of bytes of its key and value.
    pub bytes: u64,
    /// The hash of the field by which objects are sharded.
    pub shard_hash: u64,
}

impl HeldObject {
    /// Returns the [`key_hash`] of an object, and what is held of it.
    pub(super) fn of(stored: &DecodedObject<'_>) -> Result<(u64, Self), InvalidResponse> {
        let Some(key) = stored.key.strip_prefix(ROOT.as_bytes()) else {
            return Err(InvalidResponse::ForeignKey(
                stored.key.escape_ascii().to_string(),
            ));
        };
        let mut one = Fingerprint::default();
        let held = Self {
            revision: stored.revision,
            hash: one.add(key, stored.value),
            bytes: one.bytes,
            shard_hash: stored.shard_hash(),
        };
        Ok((key_hash(key), held))
    }
}

/// An event that a worker received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The object's resourceVersion.
    pub revision: i64,
    /// The effect of the write.
    pub effect: Effect,
    /// The [`key_hash`] of its object.
    pub key: u64,
    /// The hash of its object's key and bytes.
    pub hash: u64,
    /// When the last of the event's bytes were received.
    pub at: Instant,
}

/// What a worker received after the initial state.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The events of the worker's own objects, in order.
    pub seen: Vec<Seen>,
    /// The number of events that the worker discarded, because their objects belong to other
    /// workers.
    pub filtered: u64,
    /// The number of bookmarks.
    pub bookmarks: u64,
    /// The number of bytes received, after decompression.
    pub wire_bytes: u64,
    /// How often the worker dropped its connection on purpose.
    pub reconnects: u64,
    /// How often the server ended the watch, as it does if a watcher falls behind.
    pub ended: u64,
}

/// Returns the hash that identifies a key in [`HeldObject`] and [`Seen`]. `key` is relative to the
/// registry's prefix.
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// A worker's watch.
#[derive(Debug)]
pub struct WatchWorker {
    kube: Kube,
    body: Option<Response>,
    frames: Frames,
    decoder: ItemDecoder,
    /// The key of the latest object of the initial state, which arrives in the order of keys;
    /// `None` after the initial state.
    last_key: Option<Vec<u8>>,
    /// The revision up to which everything was received.
    revision: i64,
    held: HashMap<u64, HeldObject>,
    state_bytes: u64,
    log: Log,
    /// The end of the worker's shard while it takes over another one.
    end: Option<End>,
}

/// The revision after which objects are sharded in another way.
#[derive(Debug, Clone, Copy)]
struct End {
    revision: i64,
    /// Whether the watch has reported something after the revision, so that nothing up to it is
    /// missing.
    is_passed: bool,
}

impl WatchWorker {
    /// Connects a worker of this case. It watches nothing yet.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached.
    pub async fn connect(case: &ListCase, endpoint: &TargetEndpoint) -> Result<Self, ListError> {
        let kube = Kube::connect(case, endpoint).await?;
        Ok(Self {
            decoder: kube.decoder(),
            kube,
            body: None,
            frames: Frames::default(),
            last_key: None,
            revision: 0,
            held: HashMap::new(),
            state_bytes: 0,
            log: Log::default(),
            end: None,
        })
    }

    /// Starts over with the initial state, up to the bookmark that ends it. Forgets what was held
    /// before.
    ///
    /// # Errors
    /// [`ListError`] when the watch fails or violates the protocol.
    pub async fn sync(&mut self) -> Result<(), ListError> {
        self.leave();
        self.held = HashMap::new();
        self.log = Log::default();
        heap::begin();
        self.decoder = self.kube.decoder();
        self.revision = 0;
        self.last_key = Some(Vec::new());
        self.body = Some(self.kube.get(WATCH_LIST_QUERY.to_owned()).await?);
        while self.last_key.is_some() {
            self.read().await?;
        }
        Ok(())
    }

    /// Drops the connection. The next [`Self::read`] resumes over another one, after the last
    /// revision received.
    pub fn lose_connection(&mut self) {
        self.leave();
        self.log.reconnects += 1;
    }

    /// Waits for the next bytes and processes the events that are complete. After the initial
    /// state, a watch that was lost or ended by the server is resumed first, as every informer
    /// does. Cancel-safe.
    ///
    /// # Errors
    /// See [`Self::sync`].
    pub async fn read(&mut self) -> Result<(), ListError> {
        let is_live = self.last_key.is_none();
        let body = match &mut self.body {
            Some(body) => body,
            None if is_live => {
                // The state of a cancelled request is unknown.
                self.kube.connection.cancel();
                let query = format!(
                    "watch=true&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion={}",
                    self.revision
                );
                let body = self.kube.get(query).await?;
                self.body.insert(body)
            }
            None => return Err(malformed("nothing is being watched").into()),
        };
        let Some(bytes) = body.next().await? else {
            if !is_live {
                return Err(malformed("the watch ended before its state did").into());
            }
            self.leave();
            self.log.ended += 1;
            return Ok(());
        };
        self.log.wire_bytes += bytes.len() as u64;
        let mut frames = std::mem::take(&mut self.frames);
        let now = Instant::now();
        frames.feed(&bytes, |frame| self.event(frame, now))?;
        self.frames = frames;
        Ok(())
    }

    /// Returns the revision up to which everything was received.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the objects that the worker holds, by [`key_hash`].
    #[must_use]
    pub fn held(&self) -> &HashMap<u64, HeldObject> {
        &self.held
    }

    /// Returns the number of bytes received for the initial state.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.state_bytes
    }

    /// Returns what was received after the initial state so far, and clears it.
    pub fn take_log(&mut self) -> Log {
        std::mem::take(&mut self.log)
    }

    fn leave(&mut self) {
        self.body = None;
        self.frames = Frames::default();
        self.kube.connection.cancel();
    }

    fn event(&mut self, frame: &[u8], now: Instant) -> Result<(), InvalidResponse> {
        let event = Event::read(frame, self.decoder.resource())?;
        let effect = match event.kind {
            b"ADDED" => Effect::Created,
            b"MODIFIED" => Effect::Changed,
            b"DELETED" => Effect::Deleted,
            b"BOOKMARK" => {
                let (revision, ends_state) = event.bookmark()?;
                return self.bookmark(revision, ends_state);
            }
            _ => return Err(event.unexpected()),
        };
        let Some(stored) = self.decoder.event(event.object)? else {
            self.log.filtered += u64::from(self.last_key.is_none());
            return Ok(());
        };
        if let Some(end) = &mut self.end
            && stored.revision > end.revision
        {
            end.is_passed = true;
            return Ok(());
        }
        let (key_hash, held) = HeldObject::of(&stored)?;
        if let Some(last_key) = &mut self.last_key {
            let key = &stored.key[ROOT.len()..];
            if effect != Effect::Created || *key <= last_key[..] {
                return Err(InvalidResponse::Order {
                    index: self.held.len() as u64,
                    key: key.escape_ascii().to_string(),
                    previous: last_key.escape_ascii().to_string(),
                });
            }
            last_key.clear();
            last_key.extend_from_slice(key);
            self.held.insert(key_hash, held);
            return Ok(());
        }
        self.log.seen.push(Seen {
            revision: held.revision,
            effect,
            key: key_hash,
            hash: held.hash,
            at: now,
        });
        self.apply(effect, key_hash, held)
    }

    /// Compares a live event with the objects held, and applies it.
    fn apply(
        &mut self,
        effect: Effect,
        key: u64,
        object: HeldObject,
    ) -> Result<(), InvalidResponse> {
        if object.revision <= self.revision {
            return Err(malformed(&format!(
                "an event of revision {} behind revision {}",
                object.revision, self.revision
            )));
        }
        self.revision = object.revision;
        let before = match effect {
            Effect::Deleted => self.held.remove(&key),
            Effect::Created | Effect::Changed => self.held.insert(key, object),
        };
        match (effect, before.is_some()) {
            (Effect::Created, false) | (Effect::Changed | Effect::Deleted, true) => Ok(()),
            (effect, is_held) => {
                let holds = match is_held {
                    true => "already holds",
                    false => "does not hold",
                };
                Err(malformed(&format!(
                    "revision {}: {effect:?} event for an object that the worker {holds}",
                    object.revision
                )))
            }
        }
    }

    fn bookmark(&mut self, revision: i64, ends_state: bool) -> Result<(), InvalidResponse> {
        if ends_state != self.last_key.is_some() {
            return Err(malformed("a bookmark at the wrong place of the watch"));
        }
        let newest = self.held.values().map(|held| held.revision).max();
        if ends_state && newest.is_some_and(|newest| newest > revision) {
            return Err(InvalidResponse::Revision {
                object: newest.unwrap_or_default(),
                list: revision,
            });
        }
        if revision < self.revision {
            return Err(InvalidResponse::Stale {
                found: revision,
                at_least: self.revision,
            });
        }
        if let Some(end) = &mut self.end
            && revision > end.revision
        {
            end.is_passed = true;
            return Ok(());
        }
        if ends_state {
            self.last_key = None;
            // What follows is counted separately.
            self.state_bytes = std::mem::take(&mut self.log.wire_bytes);
        } else {
            self.log.bookmarks += 1;
        }
        self.revision = revision;
        Ok(())
    }
}
