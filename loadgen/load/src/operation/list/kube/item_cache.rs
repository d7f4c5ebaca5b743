//! What items in JSON came to, so that an item whose text was seen before is not parsed again.
//!
//! Parsing an item costs more than a server takes to make it, hashing it does not. Each known item
//! names the one that followed it in the latest list, so that in a list like the one before every
//! item is found by one hash of as many bytes as it had, without looking for its end. Where another
//! item follows (one was inserted, deleted or changed), it is looked up by the hash of its text,
//! parsed only where that is unknown, and remembered as the follower.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use twox_hash::XxHash3_64;

/// No item.
const NONE: u32 = u32::MAX;

/// The items that are known. Shared by the clients of a case.
#[derive(Debug, Clone, Default)]
pub(super) struct ItemCache(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    items: RwLock<Items>,
    /// Items that had to be parsed.
    parsed: AtomicU64,
}

#[derive(Debug)]
struct Items {
    known: Vec<Known>,
    by_text: HashMap<u64, u32>,
    /// By the hash of the key: an object has one text at a time, and a changed one takes the place
    /// of its old one.
    by_key: HashMap<u64, u32>,
    first: u32,
}

impl Default for Items {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            by_text: HashMap::new(),
            by_key: HashMap::new(),
            first: NONE,
        }
    }
}

/// One item that was parsed once.
#[derive(Debug, Clone)]
struct Known {
    text_len: usize,
    /// XXH3 of its text.
    text_hash: u64,
    key: Box<[u8]>,
    object: Option<Checked>,
    /// The item behind it in the latest list.
    next: u32,
}

/// What a check was told of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checked {
    /// What [`crate::verify::Check::visit`] returned for it.
    pub(super) hash: u64,
    pub(super) bytes: u64,
    pub(super) revision: i64,
}

/// An item that is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) len: usize,
    /// `None` for an item that no check is shown.
    pub(super) object: Option<Checked>,
}

/// Where in a list its reader is: behind this item, or at the beginning.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor(Option<u32>);

impl Items {
    fn expected_at(&self, cursor: Cursor) -> u32 {
        match cursor.0 {
            None => self.first,
            Some(last) => self.known[last as usize].next,
        }
    }

    fn link(&mut self, cursor: Cursor, to: u32) {
        match cursor.0 {
            None => self.first = to,
            Some(last) => self.known[last as usize].next = to,
        }
    }
}

impl ItemCache {
    /// Finds the item that `bytes` begin with, where it is the one that is expected at the cursor;
    /// the cursor is behind it then, and `key` is its key.
    pub(super) fn expected(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        key: &mut Vec<u8>,
    ) -> Option<Found> {
        let items = self.0.items.read();
        let index = items.expected_at(*cursor);
        let known = items.known.get(index as usize)?;
        let text = bytes.get(..known.text_len)?;
        (XxHash3_64::oneshot(text) == known.text_hash).then(|| known.found(index, cursor, key))
    }

    /// Finds an item, whole and nothing else, wherever it was. `hash` is its [`text_hash`].
    pub(super) fn anywhere(
        &self,
        cursor: &mut Cursor,
        text: &[u8],
        hash: u64,
        key: &mut Vec<u8>,
    ) -> Option<Found> {
        let before = *cursor;
        let items = self.0.items.read();
        let index = *items.by_text.get(&hash)?;
        let known = items.known.get(index as usize)?;
        if known.text_len != text.len() || known.text_hash != hash {
            return None;
        }
        let found = known.found(index, cursor, key);
        let is_expected = items.expected_at(before) == index;
        drop(items);
        if !is_expected {
            self.0.items.write().link(before, index);
        }
        Some(found)
    }

    /// Remembers an item that was parsed. The cursor is behind it then.
    pub(super) fn learn(
        &self,
        cursor: &mut Cursor,
        text: &[u8],
        hash: u64,
        key: &[u8],
        object: Option<Checked>,
    ) {
        let mut items = self.0.items.write();
        let items = &mut *items;
        let key_hash = XxHash3_64::oneshot(key);
        let followed_by = items.expected_at(*cursor);
        let known = Known {
            text_len: text.len(),
            text_hash: hash,
            key: key.into(),
            object,
            next: followed_by,
        };
        let index = match items.by_key.get(&key_hash) {
            Some(&index) => {
                let slot = &mut items.known[index as usize];
                let old = std::mem::replace(slot, known);
                slot.next = old.next;
                if items.by_text.get(&old.text_hash) == Some(&index) {
                    items.by_text.remove(&old.text_hash);
                }
                index
            }
            None => {
                // So many items do not fit into any memory.
                let index = u32::try_from(items.known.len()).unwrap_or(NONE);
                items.known.push(known);
                items.by_key.insert(key_hash, index);
                index
            }
        };
        items.by_text.insert(hash, index);
        items.link(*cursor, index);
        cursor.0 = Some(index);
    }

    /// Counts an item that is parsed.
    pub(super) fn note_parsed(&self) {
        self.0.parsed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of items that had to be parsed.
    #[cfg(test)]
    pub(super) fn parsed(&self) -> u64 {
        self.0.parsed.load(Ordering::Relaxed)
    }
}

impl Known {
    fn found(&self, index: u32, cursor: &mut Cursor, key: &mut Vec<u8>) -> Found {
        cursor.0 = Some(index);
        key.clear();
        key.extend_from_slice(&self.key);
        Found {
            len: self.text_len,
            object: self.object,
        }
    }
}

/// Returns the hash by which an item's text is known.
pub(super) fn text_hash(text: &[u8]) -> u64 {
    XxHash3_64::oneshot(text)
}
