//! Caches the result of checking an item in JSON by its text, so that the same text is not parsed
//! twice.
//!
//! Parsing an item costs more than a server needs to write it, while hashing is cheaper. Each known
//! item refers to the one that followed it in the latest list. In a list like the one before, every
//! item is thus found by one hash over as many bytes as it had, without searching for its end. If
//! another item follows because one was inserted, deleted or changed, it is looked up by the hash
//! of its text, parsed only if that is unknown, and stored as the follower.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use twox_hash::XxHash3_64;

/// The index that stands for no item.
const NONE: u32 = u32::MAX;

/// The known items, shared by the clients of a case.
#[derive(Debug, Clone, Default)]
pub(super) struct ItemCache(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    items: RwLock<Items>,
    /// The number of items that had to be parsed.
    parsed: AtomicU64,
}

#[derive(Debug)]
struct Items {
    known: Vec<Known>,
    by_text: HashMap<u64, u32>,
    /// The items by the hash of their key. An object has one text at a time, and a changed one
    /// replaces its old one.
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

/// An item that was parsed once.
#[derive(Debug, Clone)]
struct Known {
    text_len: usize,
    /// The XXH3 hash of its text.
    text_hash: u64,
    key: Box<[u8]>,
    object: Option<Checked>,
    /// The item after it in the latest list.
    next: u32,
}

/// The data of an item that was passed to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checked {
    /// The return value of [`crate::verify::Check::visit`] for the item.
    pub(super) hash: u64,
    pub(super) bytes: u64,
    pub(super) revision: i64,
}

/// The cache's entry for an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CachedItem {
    pub(super) len: usize,
    /// `None` for an item that is not checked.
    pub(super) object: Option<Checked>,
}

/// A reader's position in a list: after this item, or at the beginning.
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
    /// Finds the item with which `bytes` begin if it is the one expected at the cursor. Moves the
    /// cursor past it and sets `key` to its key.
    pub(super) fn expected(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        key: &mut Vec<u8>,
    ) -> Option<CachedItem> {
        let items = self.0.items.read();
        let index = items.expected_at(*cursor);
        let known = items.known.get(index as usize)?;
        let text = bytes.get(..known.text_len)?;
        (XxHash3_64::oneshot(text) == known.text_hash).then(|| known.found(index, cursor, key))
    }

    /// Finds the item with exactly this text at any position. `hash` is its [`text_hash`].
    pub(super) fn anywhere(
        &self,
        cursor: &mut Cursor,
        text: &[u8],
        hash: u64,
        key: &mut Vec<u8>,
    ) -> Option<CachedItem> {
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

    /// Stores an item that was parsed, and moves the cursor past it.
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
                // No memory holds that many items.
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
    fn found(&self, index: u32, cursor: &mut Cursor, key: &mut Vec<u8>) -> CachedItem {
        cursor.0 = Some(index);
        key.clear();
        key.extend_from_slice(&self.key);
        CachedItem {
            len: self.text_len,
            object: self.object,
        }
    }
}

/// Returns the hash by which an item's text is looked up.
pub(super) fn text_hash(text: &[u8]) -> u64 {
    XxHash3_64::oneshot(text)
}
