//! A leaf: items in key order, with arrays of their key heads and tags.
//!
//! Items are pointers, so comparing keys loads a cache line per step of a search. The key heads,
//! which are the eight bytes after a common prefix of all keys of the leaf, decide nearly every
//! step within the leaf itself. The meaning of tags is up to the items ([`Item::Tag`]).

use std::cmp::Ordering;

use super::Item;
use super::entries::{FANOUT, insert_at};

/// The items of a leaf, with their key heads and tags.
#[derive(Debug, Clone)]
pub(super) struct Leaf<T: Item> {
    items: Vec<T>,
    /// The [`key_head`] of each item, in the same order.
    key_heads: Vec<u64>,
    /// The tag of each item, in the same order.
    tags: Vec<T::Tag>,
    /// Length of a common prefix of all keys, bytes; not necessarily the longest.
    common: usize,
}

impl<T: Item> Default for Leaf<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            key_heads: Vec::new(),
            tags: Vec::new(),
            common: 0,
        }
    }
}

/// Returns eight bytes of a key as a number with the same order. A short key is padded with zeros.
/// Different heads order their keys; equal heads do not.
fn key_head(key: &[u8], common: usize) -> u64 {
    let tail = key.get(common..).unwrap_or(&[]);
    match tail.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..tail.len()].copy_from_slice(tail);
            u64::from_be_bytes(bytes)
        }
    }
}

fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl<T: Item> Leaf<T> {
    /// Returns a leaf of sorted items.
    pub(super) fn new(items: Vec<T>) -> Self {
        let mut leaf = Self {
            key_heads: Vec::with_capacity(items.capacity()),
            tags: Vec::with_capacity(items.capacity()),
            items,
            common: 0,
        };
        leaf.tags.extend(leaf.items.iter().map(Item::tag));
        leaf.update_key_heads();
        leaf
    }

    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the items' tags, in the same order.
    pub(super) fn tags(&self) -> &[T::Tag] {
        &self.tags
    }

    /// Returns the items.
    pub(super) fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Returns the position of `key`, or as an error the position to insert it at.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let Some(first) = self.items.first() else {
            return Err(0);
        };
        let shared = &first.key()[..self.common];
        match key[..key.len().min(self.common)].cmp(shared) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(self.items.len()),
            Ordering::Equal => {}
        }
        let wanted = key_head(key, self.common);
        let from = self
            .key_heads
            .partition_point(|key_head| *key_head < wanted);
        let alike = self.key_heads[from..].partition_point(|key_head| *key_head == wanted);
        let found = self.items[from..from + alike].binary_search_by(|item| item.key().cmp(key));
        found.map(|at| from + at).map_err(|at| from + at)
    }

    /// Replaces the item that has the same key; returns the old one.
    pub(super) fn replace(&mut self, at: usize, item: T) -> T {
        self.tags[at] = item.tag();
        std::mem::replace(&mut self.items[at], item)
    }

    /// Inserts an item at the position from [`Leaf::search`].
    pub(super) fn insert(&mut self, at: usize, item: T) {
        let outermost = at == 0 || at == self.items.len();
        let shared = match self.items.first() {
            Some(first) if outermost => common_len(first.key(), item.key()).min(self.common),
            _ => self.common,
        };
        insert_at(&mut self.key_heads, at, key_head(item.key(), self.common));
        insert_at(&mut self.tags, at, item.tag());
        insert_at(&mut self.items, at, item);
        if shared < self.common || self.items.len() == 1 {
            self.update_key_heads();
        }
    }

    /// Removes an item. The common prefix of the others stays valid.
    pub(super) fn remove(&mut self, at: usize) -> T {
        self.key_heads.remove(at);
        self.tags.remove(at);
        self.items.remove(at)
    }

    /// Keeps the items before `at`; returns the others.
    pub(super) fn split_off(&mut self, at: usize) -> Vec<T> {
        let right = self.items.split_off(at);
        self.items.shrink_to(FANOUT);
        self.tags.truncate(at);
        self.tags.shrink_to(FANOUT);
        self.update_key_heads();
        right
    }

    /// Appends items that sort after its own.
    pub(super) fn extend(&mut self, items: Vec<T>) {
        self.tags.extend(items.iter().map(Item::tag));
        self.items.extend(items);
        self.update_key_heads();
    }

    /// Recomputes the common prefix and the key heads.
    fn update_key_heads(&mut self) {
        self.common = match &self.items[..] {
            [first, .., last] => common_len(first.key(), last.key()),
            // The next key determines the common prefix.
            [only] => only.key().len(),
            [] => 0,
        };
        let key_heads = self
            .items
            .iter()
            .map(|item| key_head(item.key(), self.common));
        self.key_heads.clear();
        self.key_heads.extend(key_heads);
    }
}
