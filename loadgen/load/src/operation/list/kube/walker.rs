//! What reads an answer: a walk over a list in either encoding, or over a watch, each with what
//! turns its objects back.

use workloads::scenario::Media;

use super::asks::Asks;
use super::client::Kube;
use super::events::EventWalker;
use super::json::JsonWalker;
use super::memo::Memo;
use super::pages::Page;
use super::protobuf::ProtobufWalker;
use super::stored_bytes::{ROOT, Restore};
use crate::verify::{Check, Wrong};

/// A walk over a list in either encoding.
#[derive(Debug)]
pub(super) enum Walker {
    Protobuf(ProtobufWalker),
    Json(JsonWalker),
}

impl Walker {
    pub(super) fn feed(&mut self, bytes: &[u8], check: Option<&mut Check>) -> Result<(), Wrong> {
        match self {
            Self::Protobuf(walker) => walker.feed(bytes, check),
            Self::Json(walker) => walker.feed(bytes, check),
        }
    }

    pub(super) fn items(&self) -> u64 {
        match self {
            Self::Protobuf(walker) => walker.items(),
            Self::Json(walker) => walker.items(),
        }
    }

    pub(super) fn next_page(&mut self, was_checked: bool) -> Result<Page, Wrong> {
        match self {
            Self::Protobuf(walker) => walker.next_page(),
            Self::Json(walker) => walker.next_page(was_checked),
        }
    }
}

impl Kube {
    pub(super) fn walker(&self) -> Walker {
        let memo = self.asks.memo.clone();
        match self.asks.media {
            Media::Protobuf => Walker::Protobuf(ProtobufWalker::new(self.restore())),
            Media::Json => Walker::Json(JsonWalker::new(self.restore_of_lists(memo))),
        }
    }

    /// What turns objects in protobuf, those of the row's part, into what is stored.
    pub(in crate::operation) fn restore(&self) -> Restore {
        let restore = self.restore_of_lists(Memo::default());
        match &self.asks.part {
            Some(part) => restore.keeping(part.kept()).hashing(part.shard.key()),
            None => restore,
        }
    }

    pub(super) fn events(&self) -> EventWalker {
        let Asks { media, memo, .. } = &self.asks;
        EventWalker::new(*media, self.restore_of_lists(memo.clone()))
    }

    /// The same of lists and states that are in no parts.
    fn restore_of_lists(&self, memo: Memo) -> Restore {
        let restore = Restore::new(ROOT, &self.resource, memo);
        let restore = restore.ignoring_made(self.asks.ignores_made);
        restore.only_namespaces(self.asks.own_namespaces.as_deref())
    }
}
