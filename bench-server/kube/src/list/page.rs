//! Selects a page from a set of objects: its objects, the continue token of the next page, and the
//! number of objects that remain.

use etcd_api::keys::{KeyRange, prefix_end};
use index::{Item, Tree};
use kube_api::{ContinueToken, ListMeta};
use memory::admission::Admitted;
use memory::open_lists::OpenList;

use crate::metrics::lists::ListStats;
use crate::resource::filter::Filter;
use crate::shard::object_set::{ObjectIter, ObjectSet};

/// The number of objects that are read before the task yields to others of its thread.
pub(super) const OBJECTS_PER_TURN: u64 = 4_096;

/// A list of objects, ready to be sent.
#[derive(Debug)]
pub struct ObjectList {
    /// The metadata of the list.
    pub meta: ListMeta,
    /// An iterator over the objects of the list, followed by objects that do not belong to it.
    pub items: ObjectIter,
    /// The number of objects of the list.
    pub count: u64,
    /// The sum of the objects' encoded lengths, in bytes.
    pub items_len: u64,
    /// The source of the list, and how many objects were read for it.
    pub(crate) stats: ListStats,
    /// Counts the list as open while it is sent, if a cache's snapshot serves it.
    pub(crate) open: Option<OpenList>,
    /// The memory that was admitted for the list, if it was read from storage as a whole or as a
    /// page.
    pub(crate) admitted: Option<Admitted>,
}

/// The remainder of a list after a page.
#[derive(Debug)]
pub(crate) struct Remainder {
    /// The number of objects that follow, if known.
    pub(crate) remaining: Option<u64>,
    /// The key, without the resource's prefix, of the last object that was read.
    pub(crate) last: Vec<u8>,
}

/// The start of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageStart<'a> {
    /// The restriction of the list to a namespace: empty, or `NAMESPACE/`.
    pub(crate) namespace_prefix: &'a str,
    /// The first key, without the resource's prefix; empty to begin with the first of all.
    pub(crate) start: &'a str,
}

/// The objects at one revision from which a list is selected.
pub(crate) struct ListSource {
    pub(crate) revision: i64,
    pub(crate) objects: ObjectSet,
    /// The remainder of the list, if the objects are a page that has been read from storage and
    /// filtered.
    pub(crate) remainder: Option<Remainder>,
    /// The source of the list. The number of objects read to select the page is added to these
    /// statistics.
    pub(crate) stats: ListStats,
}

impl ListSource {
    /// Returns a page of at most `limit` objects (0: all). Takes O(log n + page) without selectors,
    /// regardless of how many objects follow. With selectors, reads every object until the page is
    /// full.
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

    /// Returns a page of a list that all objects belong to.
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

    /// Returns all objects. Determines their number and lengths without reading each.
    async fn all(mut self, from: PageStart<'_>, range: KeyRange<'_>) -> ObjectList {
        let measured = self.objects.measured(range).await;
        let totals = measured.totals;
        if self.objects.is_shard() {
            self.stats.evaluated += totals.count + measured.others;
        }
        self.into_list(from, measured.iter, totals.count, totals.weight, None)
    }

    /// Returns a page of the objects that the filter selects. Reads every object until the page is
    /// full.
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
                    // It is not known how many of the following objects would be selected.
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
