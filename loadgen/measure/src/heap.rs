//! The memory that one thread holds, from the allocator's per-thread counters: measures one worker
//! among many in a process.
//!
//! A thread's counters grow with what it allocates and with what it frees. Memory that another
//! thread frees is never counted as freed by the thread that allocated it, so memory that is handed
//! to another thread must be subtracted ([`handing_away`]).

use std::cell::RefCell;
use std::hint::black_box;

use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

thread_local! {
    static HEAP: RefCell<Option<Heap>> = const { RefCell::new(None) };
}

struct Heap {
    allocated: ThreadLocal<u64>,
    freed: ThreadLocal<u64>,
    /// Bytes that the thread held when counting began.
    base: u64,
    most: u64,
}

impl Heap {
    /// Returns `None` if the program uses another allocator, so that these counters do not move.
    fn begin() -> Option<Self> {
        let (allocated, freed) = (allocatedp::read().ok()?, deallocatedp::read().ok()?);
        let before = allocated.get();
        drop(black_box(vec![0_u8; 64]));
        if allocated.get() == before {
            return None;
        }
        let mut heap = Self {
            allocated,
            freed,
            base: 0,
            most: 0,
        };
        heap.base = heap.holds();
        Some(heap)
    }

    /// Returns the bytes allocated less the bytes freed by this thread. Wraps around below zero if
    /// the thread has freed more memory of other threads than it holds.
    fn holds(&self) -> u64 {
        self.allocated.get().wrapping_sub(self.freed.get())
    }

    fn note(&mut self) {
        let above = self.holds().wrapping_sub(self.base);
        // Fewer bytes than at the beginning wrap around to a huge number: ignored.
        if above <= i64::MAX as u64 {
            self.most = self.most.max(above);
        }
    }
}

/// Starts counting what this thread holds beyond what it holds now.
pub fn begin() {
    HEAP.with_borrow_mut(|heap| *heap = Heap::begin());
}

/// Updates this thread's peak with what it holds now. Costs some nanoseconds.
pub fn note() {
    HEAP.with_borrow_mut(|heap| {
        if let Some(heap) = heap {
            heap.note();
        }
    });
}

/// Runs `make`, whose result another thread will free, and does not count what it allocates.
pub fn handing_away<T>(make: impl FnOnce() -> T) -> T {
    let held = || HEAP.with_borrow(|heap| heap.as_ref().map_or(0, Heap::holds));
    let before = held();
    let made = make();
    let grown = held().wrapping_sub(before);
    HEAP.with_borrow_mut(|heap| {
        if let Some(heap) = heap {
            heap.base = heap.base.wrapping_add(grown);
        }
    });
    made
}

/// Returns the most bytes that this thread held since [`begin`], among the moments at which
/// [`note`] was called; `None` if they are not counted.
#[must_use]
pub fn most() -> Option<u64> {
    note();
    HEAP.with_borrow(|heap| heap.as_ref().map(|heap| heap.most))
}
