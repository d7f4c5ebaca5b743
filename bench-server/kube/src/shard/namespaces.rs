//! The namespaces of a shard: each is a range of keys in the tree of everything, so all that is to be found
//! is the next one whose hash is in the shard.

use std::sync::Arc;

use etcd_api::keys::KeyRange;
use index::{Cursor, Totals, Tree};
use kube_api::ShardSelector;
use kube_api::hash::fnv1a_64;

use crate::resource::object::Object;

/// Reads one namespace after the other. O(log n) for each that there is, in the shard or not, and nothing for
/// the objects of those that are not.
#[derive(Debug, Clone)]
pub(crate) struct NamespaceIter {
    tree: Tree<Object>,
    selector: Arc<ShardSelector>,
    /// Where the next namespace is looked for.
    at: Vec<u8>,
    /// Where the range of keys ends; `None` is the end of everything.
    end: Option<Vec<u8>>,
    /// What is left of the present namespace.
    objects: Cursor<Object>,
    /// Objects that were read.
    read: u64,
}

/// Namespaces that are counted before others on the same thread get their turn.
const TURN: u64 = 1_024;

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

    /// How many objects are left to read, and what they weigh.
    pub(crate) async fn totals(mut self) -> Totals {
        let (mut totals, mut namespaces) = (Totals::default(), 0_u64);
        while let Some((start, end)) = self.next_namespace() {
            totals += self.tree.totals(range(&start, end.as_deref()));
            namespaces += 1;
            if namespaces.is_multiple_of(TURN) {
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

    /// Goes on to the next namespace of the shard when the present one is read.
    fn fill(&mut self) {
        while self.objects.remaining() == 0
            && let Some((start, end)) = self.next_namespace()
        {
            self.objects = self.tree.cursor(range(&start, end.as_deref()));
        }
    }

    /// The keys of the next namespace that belongs to the shard, as far as they lie in the range.
    fn next_namespace(&mut self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        loop {
            let mut rest = self.tree.cursor(range(&self.at, self.end.as_deref()));
            let first = rest.peek()?;
            let namespace = first.namespace();
            let selected = self.selector.selects(fnv1a_64(namespace));
            // What follows `NAMESPACE/`; where there are no namespaces all objects have the same one.
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
