//! One worker's watch: from the state to whatever comes after it, also over a lost connection.
//!
//! The worker holds what an informer would: per object its revision, and a hash of its bytes in
//! place of them. Each event is compared with that: ADDED is new, MODIFIED and DELETED are of an
//! object that is there, and revisions rise.
//!
//! - [`reshard_handover`]: from the shard that it has to another one

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
use crate::verify::{InvalidResponse, not_a_list};

/// An object that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its resourceVersion.
    pub revision: i64,
    /// Hash of its key and bytes, as in a [`Fingerprint`].
    pub hash: u64,
    /// Bytes of its key and of itself.
    pub bytes: u64,
    /// Hash of the field that shards are cut by.
    pub shard_hash: u64,
}

impl Held {
    /// Returns what is held of an object, and its [`key_hash`].
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

/// An event as a worker saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its resourceVersion.
    pub revision: i64,
    /// What it says.
    pub effect: Effect,
    /// [`key_hash`] of its object.
    pub key: u64,
    /// Hash of its object's key and bytes.
    pub hash: u64,
    /// When the bytes had come in which it ended.
    pub at: Instant,
}

/// What came behind the state.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Events of the worker's own objects, in order.
    pub seen: Vec<Seen>,
    /// Events that the worker threw away: of objects that are others'.
    pub filtered: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Bytes as they came.
    pub wire_bytes: u64,
    /// How often the worker lost its connection on purpose.
    pub reconnects: u64,
    /// How often the server ended the watch, as it does with one that falls behind.
    pub ended: u64,
}

/// Returns a key, as [`Held`] and [`Seen`] name it; `key` is relative to the registry's prefix.
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// A worker's watch.
#[derive(Debug)]
pub struct Follower {
    kube: Kube,
    body: Option<Response>,
    frames: Frames,
    decoder: ItemDecoder,
    /// Key of the latest object of the state, which comes in the order of keys; `None` behind the
    /// state.
    last_key: Option<Vec<u8>>,
    /// Everything up to here has come.
    revision: i64,
    held: HashMap<u64, Held>,
    state_bytes: u64,
    log: Log,
    /// Where the worker's shard ends while it takes another one over.
    end: Option<End>,
}

/// The revision behind which objects are shared another way.
#[derive(Debug, Clone, Copy)]
struct End {
    revision: i64,
    /// Whether the watch has told of something behind it, so that nothing up to it is missing.
    is_passed: bool,
}

impl Follower {
    /// Connects a worker of this case; it watches nothing yet.
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

    /// Begins anew: the state, up to the bookmark that ends it. What was held before is forgotten.
    ///
    /// # Errors
    /// [`ListError`] when the watch fails or breaks the contract.
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

    /// Loses the connection; the next [`Self::read`] watches on over another one, from what came
    /// last.
    pub fn lose_connection(&mut self) {
        self.leave();
        self.log.reconnects += 1;
    }

    /// Waits for the next bytes, and takes the events that end in them. A watch behind the state
    /// that was lost, or ended by the server, is resumed first, as every informer does. Cancelled,
    /// it has taken nothing.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub async fn read(&mut self) -> Result<(), ListError> {
        let is_live = self.last_key.is_none();
        let body = match &mut self.body {
            Some(body) => body,
            None if is_live => {
                // Of a request that was cancelled nothing is known.
                self.kube.connection.cancel();
                let query = format!(
                    "watch=true&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion={}",
                    self.revision
                );
                let body = self.kube.get(query).await?;
                self.body.insert(body)
            }
            None => return Err(not_a_list("nothing is being watched").into()),
        };
        let Some(bytes) = body.next().await? else {
            if !is_live {
                return Err(not_a_list("the watch ended before its state did").into());
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

    /// Returns the revision up to which everything has come.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the objects that it holds, by [`key_hash`].
    #[must_use]
    pub fn held(&self) -> &HashMap<u64, Held> {
        &self.held
    }

    /// Returns the number of bytes received for the state.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.state_bytes
    }

    /// Returns what came behind the state so far; forgets it.
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
        let (key_hash, held) = Held::of(&stored)?;
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

    /// Holds a live event against what is there.
    fn apply(&mut self, effect: Effect, key: u64, object: Held) -> Result<(), InvalidResponse> {
        if object.revision <= self.revision {
            return Err(not_a_list(&format!(
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
            (effect, was_there) => Err(not_a_list(&format!(
                "at revision {} an object is {effect:?} that was {}there",
                object.revision,
                if was_there { "" } else { "not " }
            ))),
        }
    }

    fn bookmark(&mut self, revision: i64, ends_state: bool) -> Result<(), InvalidResponse> {
        if ends_state != self.last_key.is_some() {
            return Err(not_a_list("a bookmark at the wrong place of the watch"));
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
            // What follows is counted by itself.
            self.state_bytes = std::mem::take(&mut self.log.wire_bytes);
        } else {
            self.log.bookmarks += 1;
        }
        self.revision = revision;
        Ok(())
    }
}
