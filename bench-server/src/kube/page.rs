//! Cutting a page out of a state: the objects, the token of the next page, and what remains behind it.

use etcd_api::keys::{KeyRange, prefix_end};
use kube_api::{ContinueToken, ListMeta};

use super::figures::lists::Served;
use super::filter::Filter;
use super::object::Object;
use crate::store::index::{Cursor, Item, Tree};

/// Objects that are looked at before others on the same thread get their turn.
pub(super) const TURN: u64 = 4_096;

/// A list that is ready to be sent.
#[derive(Debug)]
pub struct Listing {
    /// What the list says about itself.
    pub meta: ListMeta,
    /// The objects from its first on.
    pub items: Cursor<Object>,
    /// How many of them belong to the list.
    pub count: u64,
    /// Sum of their encoded lengths.
    pub items_len: u64,
    /// Who answered, and what it took.
    pub(crate) served: Served,
}

/// What lies behind a page.
#[derive(Debug)]
pub(crate) struct Behind {
    /// Objects there.
    pub(crate) remaining: u64,
    /// Key, below the resource's prefix, of the last object that was looked at.
    pub(crate) last: Vec<u8>,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From<'a> {
    /// What the list is restricted to: empty, or `NAMESPACE/`.
    pub(crate) below: &'a str,
    /// First key below the resource's prefix; empty for the beginning.
    pub(crate) start: &'a str,
}

/// A state at a revision, and who has it.
pub(crate) struct State<'t> {
    pub(crate) revision: i64,
    pub(crate) tree: &'t Tree<Object>,
    /// Set where the tree holds no more than a page, cut and filtered by storage.
    pub(crate) behind: Option<Behind>,
    /// Who has it. What it took is counted while a page is cut, and added to this.
    pub(crate) served: Served,
}

impl State<'_> {
    /// The page of at most `limit` objects (0: all). Costs O(log n + page) without selectors, however many
    /// objects are behind it; with selectors each object is looked at until the page is full.
    pub(crate) async fn page(mut self, from: From<'_>, limit: u64, filter: &Filter) -> Listing {
        let start = if from.start.is_empty() {
            from.below
        } else {
            from.start
        };
        let end = prefix_end(from.below.as_bytes());
        let range = KeyRange::new(start.as_bytes(), &end);
        if filter.is_empty() {
            let totals = self.tree.totals(range);
            let items = self.tree.cursor(range);
            if limit == 0 || totals.count <= limit {
                return self.listing(from, items, totals.count, totals.weight, None);
            }
            let mut walk = items.clone();
            let (mut items_len, mut last) = (0, Vec::new());
            for left in (0..limit).rev() {
                let Some(object) = walk.next_ref() else { break };
                items_len += object.weight();
                if left == 0 {
                    last = object.key().to_vec();
                }
            }
            let behind = Behind {
                remaining: walk.remaining(),
                last,
            };
            return self.listing(from, items, limit, items_len, Some(behind));
        }

        let mut selected = Tree::default();
        let mut walk = self.tree.cursor(range);
        let everything = walk.remaining();
        let mut behind = None;
        while let Some(object) = walk.next_ref() {
            if filter.matches(object) {
                let last = object.clone();
                selected.insert(last.clone());
                if selected.len() == limit {
                    let remaining = walk.remaining();
                    behind = (remaining > 0).then(|| Behind {
                        remaining,
                        last: last.key().to_vec(),
                    });
                    break;
                }
            }
            if walk.remaining().is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
        }
        self.served.evaluated += everything - walk.remaining();
        let items = selected.cursor(KeyRange::From(b""));
        let mut listing = self.listing(from, items, selected.len(), selected.weight(), behind);
        // How many of those behind would be selected is not known.
        listing.meta.remaining_item_count = None;
        listing
    }

    fn listing(
        self,
        from: From<'_>,
        items: Cursor<Object>,
        count: u64,
        items_len: u64,
        behind: Option<Behind>,
    ) -> Listing {
        let mut meta = ListMeta {
            resource_version: self.revision as u64,
            ..ListMeta::default()
        };
        if let Some(behind) = behind.or(self.behind) {
            let last = String::from_utf8_lossy(&behind.last);
            let last = last.strip_prefix(from.below).unwrap_or(&last);
            meta.continue_token = ContinueToken::after(self.revision, last).encode();
            meta.remaining_item_count = Some(behind.remaining);
        }
        Listing {
            meta,
            items,
            count,
            items_len,
            served: Served {
                returned: count,
                ..self.served
            },
        }
    }
}
