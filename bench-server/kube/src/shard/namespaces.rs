//! Finds the namespaces of a shard. The objects of a namespace are a range of keys, so it suffices
//! to find the next namespace whose hash is in the shard.

use std::sync::Arc;

use etcd_api::keys::KeyRange;
use index::{Cursor, Totals, Tree};
use kube_api::ShardSelector;
use kube_api::hash::fnv1a_64;

use crate::resource::object::Object;

/// An iterator over the objects of a shard, one namespace after the other. Takes O(log n) for each
/// namespace, in the shard or not, and nothing for the objects of namespaces outside it.
#[derive(Debug, Clone)]
pub(crate) struct NamespaceIter {
    tree: Tree<Object>,
    selector: Arc<ShardSelector>,
    /// The key at which the search for the next namespace begins.
    at: Vec<u8>,
    /// The end of the range of keys; `None` for the end of the tree.
    end: Option<Vec<u8>>,
    /// The objects left in the current namespace.
    objects: Cursor<Object>,
    /// The number of objects that were read.
    read: u64,
}

/// The number of namespaces that are counted before the task yields to others of its thread.
const NAMESPACES_PER_TURN: u64 = 1_024;

impl NamespaceIter {
    pub(crate) fn new(
        tree: Tree<Object>,
        selector: Arc<ShardSelector>,
        range: KeyRange<'_>,
    ) -> Self {
        let end = match range {
            KeyRange::One(key) => Some([key, b"\0"].concat()),
            KeyRange::Between(_, end) => Some(end.to_vec()),
            KeyRange::From(_) => None,
        };
        Self {
            at: range.start().to_vec(),
            end,
            objects: tree.cursor(KeyRange::Between(b"", b"")),
            tree,
            selector,
            read: 0,
        }
    }

    /// Returns how many objects are left, and the sum of their lengths.
    pub(crate) async fn totals(mut self) -> Totals {
        let (mut totals, mut namespaces) = (Totals::default(), 0_u64);
        while let Some((start, end)) = self.next_namespace() {
            totals += self.tree.totals(range(&start, end.as_deref()));
            namespaces += 1;
            if namespaces.is_multiple_of(NAMESPACES_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
        totals
    }

    pub(crate) fn evaluated(&self) -> u64 {
        self.read
    }

    pub(crate) fn next_ref(&mut self) -> Option<&Object> {
        self.fill();
        let object = self.objects.next_ref();
        self.read += u64::from(object.is_some());
        object
    }

    pub(crate) fn is_exhausted(&mut self) -> bool {
        self.fill();
        self.objects.remaining() == 0
    }

    /// Advances to the next namespace of the shard once the current one has been read.
    fn fill(&mut self) {
        while self.objects.remaining() == 0
            && let Some((start, end)) = self.next_namespace()
        {
            self.objects = self.tree.cursor(range(&start, end.as_deref()));
        }
    }

    /// Returns the range of keys of the next namespace of the shard, within the range of the
    /// iterator.
    fn next_namespace(&mut self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        loop {
            let mut rest = self.tree.cursor(range(&self.at, self.end.as_deref()));
            let first = rest.peek()?;
            let namespace = first.namespace();
            let selected = self.selector.selects(fnv1a_64(namespace));
            // The first key after those that begin with `NAMESPACE/`. All objects of a
            // cluster-scoped kind count as one namespace.
            let behind = match namespace {
                [] => None,
                _ => Some([namespace, b"0"].concat()),
            };
            let behind = match (behind, &self.end) {
                (Some(behind), Some(end)) => Some(behind.min(end.clone())),
                (behind, end) => behind.or(end.clone()),
            };
            let start = match &behind {
                Some(behind) => std::mem::replace(&mut self.at, behind.clone()),
                None => {
                    let start = std::mem::take(&mut self.at);
                    // Nothing is left.
                    self.end = Some(Vec::new());
                    start
                }
            };
            if selected {
                return Some((start, behind));
            }
        }
    }
}

fn range<'k>(start: &'k [u8], end: Option<&'k [u8]>) -> KeyRange<'k> {
    match end {
        Some(end) => KeyRange::Between(start, end),
        None => KeyRange::From(start),
    }
}
