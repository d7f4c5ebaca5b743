//! A leaf: items in key order, and for each a piece of its key and its tag, which lie beside the others'.
//!
//! Items are pointers, so comparing keys means fetching a distant cache line per step of a search.
//! The pieces, eight bytes after the prefix that all keys of the leaf have in common, settle nearly
//! every step within the leaf itself. What a tag is good for is the items' own matter ([`Item::Tag`]).

use std::cmp::Ordering;

use super::Item;
use super::entries::{FANOUT, insert_at};

/// Items of a leaf, the pieces of their keys and their tags.
#[derive(Debug, Clone)]
pub(super) struct Leaf<T: Item> {
    items: Vec<T>,
    /// Piece `i` is [`piece`] of the key of item `i`.
    pieces: Vec<u64>,
    /// Tag `i` is that of item `i`.
    tags: Vec<T::Tag>,
    /// Bytes that every key here begins with alike; there may be more of them.
    common: usize,
}

impl<T: Item> Default for Leaf<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            pieces: Vec::new(),
            tags: Vec::new(),
            common: 0,
        }
    }
}

/// Eight bytes of a key, as a number that orders as they do; a short key is filled up with zeros,
/// so equal pieces say nothing, while unequal ones order the keys.
fn piece(key: &[u8], common: usize) -> u64 {
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
    /// A leaf of items that are in order.
    pub(super) fn of(items: Vec<T>) -> Self {
        let mut leaf = Self {
            pieces: Vec::with_capacity(items.capacity()),
            tags: Vec::with_capacity(items.capacity()),
            items,
            common: 0,
        };
        leaf.tags.extend(leaf.items.iter().map(Item::tag));
        leaf.measure();
        leaf
    }

    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    /// The items' tags, in the same order.
    pub(super) fn tags(&self) -> &[T::Tag] {
        &self.tags
    }

    /// Takes the items out.
    pub(super) fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Where `key` is, or where it would be.
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
        let wanted = piece(key, self.common);
        let from = self.pieces.partition_point(|piece| *piece < wanted);
        let alike = self.pieces[from..].partition_point(|piece| *piece == wanted);
        let found = self.items[from..from + alike].binary_search_by(|item| item.key().cmp(key));
        found.map(|at| from + at).map_err(|at| from + at)
    }

    /// Puts an item in the place of the one that has its key.
    pub(super) fn replace(&mut self, at: usize, item: T) -> T {
        self.tags[at] = item.tag();
        std::mem::replace(&mut self.items[at], item)
    }

    /// Inserts an item where [`Leaf::search`] said.
    pub(super) fn insert(&mut self, at: usize, item: T) {
        let outermost = at == 0 || at == self.items.len();
        let shared = match self.items.first() {
            Some(first) if outermost => common_len(first.key(), item.key()).min(self.common),
            _ => self.common,
        };
        insert_at(&mut self.pieces, at, piece(item.key(), self.common));
        insert_at(&mut self.tags, at, item.tag());
        insert_at(&mut self.items, at, item);
        if shared < self.common || self.items.len() == 1 {
            self.measure();
        }
    }

    /// Removes an item. What the others have in common stays true.
    pub(super) fn remove(&mut self, at: usize) -> T {
        self.pieces.remove(at);
        self.tags.remove(at);
        self.items.remove(at)
    }

    /// Keeps the items before `at` and returns the others.
    pub(super) fn split_off(&mut self, at: usize) -> Vec<T> {
        let right = self.items.split_off(at);
        self.items.shrink_to(FANOUT);
        self.tags.truncate(at);
        self.tags.shrink_to(FANOUT);
        self.measure();
        right
    }

    /// Appends items that follow its own in order.
    pub(super) fn extend(&mut self, items: Vec<T>) {
        self.tags.extend(items.iter().map(Item::tag));
        self.items.extend(items);
        self.measure();
    }

    /// Finds out anew what the keys have in common, and their pieces.
    fn measure(&mut self) {
        self.common = match &self.items[..] {
            [first, .., last] => common_len(first.key(), last.key()),
            // One key has everything in common with itself; the next one will tell.
            [only] => only.key().len(),
            [] => 0,
        };
        let pieces = self.items.iter().map(|item| piece(item.key(), self.common));
        self.pieces.clear();
        self.pieces.extend(pieces);
    }
}
