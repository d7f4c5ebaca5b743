//! Cuts a page out of a set of objects: its objects, the token of the next page, and how many
//! remain.

use etcd_api::keys::{KeyRange, prefix_end};
use index::{Item, Tree};
use kube_api::{ContinueToken, ListMeta};
use memory::admission::Admitted;
use memory::open_lists::OpenList;

use crate::metrics::lists::ListStats;
use crate::resource::filter::Filter;
use crate::shard::object_set::{ObjectIter, ObjectSet};

/// Objects that are read before other tasks of the thread get their turn.
pub(super) const OBJECTS_PER_TURN: u64 = 4_096;

/// A list of objects, ready to be sent.
#[derive(Debug)]
pub struct ObjectList {
    /// The metadata of the list.
    pub meta: ListMeta,
    /// Iterates over the objects, and then over others that do not belong to the list.
    pub items: ObjectIter,
    /// How many objects belong to the list.
    pub count: u64,
    /// Sum of the objects' encoded lengths, bytes.
    pub items_len: u64,
    /// What served the list, and how many objects were read for it.
    pub(crate) stats: ListStats,
    /// Counts the list as open while it is sent, if a cache's snapshot serves it.
    pub(crate) open: Option<OpenList>,
    /// The memory that it was admitted to, if it was read from storage as a whole.
    pub(crate) admitted: Option<Admitted>,
}

/// What follows a page.
#[derive(Debug)]
pub(crate) struct Remainder {
    /// How many objects follow, if that is known.
    pub(crate) remaining: Option<u64>,
    /// Key, below the resource's prefix, of the last object that was read.
    pub(crate) last: Vec<u8>,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageStart<'a> {
    /// What the list is restricted to: empty, or `NAMESPACE/`.
    pub(crate) namespace_prefix: &'a str,
    /// First key below the resource's prefix; empty for the first of all.
    pub(crate) start: &'a str,
}

/// The objects at one revision, of which a list is a part.
pub(crate) struct ListSource {
    pub(crate) revision: i64,
    pub(crate) objects: ObjectSet,
    /// What follows the objects, if storage has cut a page and filtered it.
    pub(crate) remainder: Option<Remainder>,
    /// What serves the list. What cutting the page costs is added to it.
    pub(crate) stats: ListStats,
}

impl ListSource {
    /// Returns the page of at most `limit` objects (0: all). Costs O(log n + page) without
    /// selectors, however many objects follow; with selectors, every object is read until the page
    /// is full.
    pub(crate) async fn page(self, from: PageStart<'_>, limit: u64, filter: &Filter) -> ObjectList {
        let start = if from.start.is_empty() {
            from.namespace_prefix
        } else {
            from.start
        };
        let end = prefix_end(from.namespace_prefix.as_bytes());
        let range = KeyRange::new(start.as_bytes(), &end);
        let in_shard = self.objects.is_shard() && filter.selects_whole_shard();
        match in_shard || filter.is_empty() {
            true => self.page_of_all(from, range, limit).await,
            false => self.page_of_selected(from, range, limit, filter).await,
        }
    }

    /// Returns a page where all objects belong to the list.
    async fn page_of_all(
        mut self,
        from: PageStart<'_>,
        range: KeyRange<'_>,
        limit: u64,
    ) -> ObjectList {
        if limit == 0 {
            return self.all(from, range).await;
        }
        let items = self.objects.iter(range);
        if items.remaining().is_some_and(|count| count <= limit) {
            return self.all(from, range).await;
        }
        let mut iter = items.clone();
        let (mut count, mut items_len, mut last) = (0, 0, Vec::new());
        while let Some(object) = iter.next_ref() {
            count += 1;
            items_len += object.weight();
            if count == limit {
                last = object.key().to_vec();
                break;
            }
            if count.is_multiple_of(OBJECTS_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
        self.stats.evaluated += iter.evaluated();
        let remainder = (!iter.is_exhausted()).then(|| Remainder {
            remaining: iter.remaining(),
            last,
        });
        self.into_list(from, items, count, items_len, remainder)
    }

    /// Returns all objects. Their number and lengths are known without reading each.
    async fn all(mut self, from: PageStart<'_>, range: KeyRange<'_>) -> ObjectList {
        let measured = self.objects.measured(range).await;
        let totals = measured.totals;
        if self.objects.is_shard() {
            self.stats.evaluated += totals.count + measured.others;
        }
        self.into_list(from, measured.iter, totals.count, totals.weight, None)
    }

    /// Returns a page of the objects that the filter selects; reads each.
    async fn page_of_selected(
        mut self,
        from: PageStart<'_>,
        range: KeyRange<'_>,
        limit: u64,
        filter: &Filter,
    ) -> ObjectList {
        let mut selected = Tree::default();
        let mut iter = self.objects.iter(range);
        let (mut remainder, mut evaluated, mut prefetched) = (None, 0_u64, 0_u64);
        loop {
            if evaluated >= prefetched && filter.has_labels() {
                prefetched = evaluated + iter.prefetch_labels() as u64;
            }
            let Some(object) = iter.next_ref() else {
                break;
            };
            evaluated += 1;
            if filter.matches(object) {
                let last = object.clone();
                selected.insert(last.clone());
                if selected.len() == limit {
                    // How many of the following objects would be selected is not known.
                    remainder = (!iter.is_exhausted()).then(|| Remainder {
                        remaining: None,
                        last: last.key().to_vec(),
                    });
                    break;
                }
            }
            if evaluated.is_multiple_of(OBJECTS_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
        self.stats.evaluated += evaluated;
        let items = selected.cursor(KeyRange::From(b"")).into();
        self.into_list(from, items, selected.len(), selected.weight(), remainder)
    }

    fn into_list(
        self,
        from: PageStart<'_>,
        items: ObjectIter,
        count: u64,
        items_len: u64,
        remainder: Option<Remainder>,
    ) -> ObjectList {
        let mut meta = ListMeta {
            resource_version: self.revision as u64,
            ..ListMeta::default()
        };
        if let Some(remainder) = remainder.or(self.remainder) {
            let last = String::from_utf8_lossy(&remainder.last);
            let last = last.strip_prefix(from.namespace_prefix).unwrap_or(&last);
            meta.continue_token = ContinueToken::after(self.revision, last).encode();
            meta.remaining_item_count = remainder.remaining;
        }
        ObjectList {
            meta,
            items,
            count,
            items_len,
            stats: ListStats {
                returned: count,
                ..self.stats
            },
            open: None,
            admitted: None,
        }
    }
}
