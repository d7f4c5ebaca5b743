//! The objects of a shard in a tree of all: the others are passed over by the half of the hash that lies beside
//! their pointers in the leaves, so that their own memory is not touched.

use std::sync::Arc;

use kube_api::ShardSelector;

use crate::kube::object::Object;
use crate::store::index::{Cursor, Item, Totals};

/// Objects that are passed before others on the same thread get their turn: some tenth of a millisecond.
const TURN: u64 = 32_768;

/// Reads a shard of uids. Some nanoseconds for each object of others.
#[derive(Debug, Clone)]
pub(crate) struct Passing {
    objects: Cursor<Object>,
    selector: Arc<ShardSelector>,
    looked_at: u64,
}

impl Passing {
    pub(crate) fn new(objects: Cursor<Object>, selector: Arc<ShardSelector>) -> Self {
        Self {
            objects,
            selector,
            looked_at: 0,
        }
    }

    /// How many objects are left to read, and what they weigh.
    pub(crate) async fn totals(mut self) -> Totals {
        let mut totals = Totals::default();
        while let Some(object) = self.objects.next_ref() {
            if object.is_in(&self.selector).0 {
                totals += Totals {
                    count: 1,
                    weight: object.weight(),
                };
            }
            if self.objects.remaining().is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
        }
        totals
    }

    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.pass();
        self.objects.remaining() == 0
    }

    pub(crate) fn next_ref(&mut self) -> Option<&Object> {
        self.pass();
        let object = self.objects.next_ref();
        self.looked_at += u64::from(object.is_some());
        object
    }

    /// Goes on to the next object of the shard.
    fn pass(&mut self) {
        while let Some(object) = self.objects.peek() {
            let (is_in, looked) = object.is_in(&self.selector);
            if is_in {
                return;
            }
            self.looked_at += u64::from(looked);
            self.objects.next_ref();
        }
    }
}
