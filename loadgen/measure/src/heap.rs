//! What one thread holds, by the allocator's own counters of it: the memory of one worker among
//! many in a process.
//!
//! A thread's counters rise with what it allocates and with what it frees. Memory that another
//! thread frees stays on its account, so what is handed away must be taken off ([`handing_away`]).

use std::cell::RefCell;
use std::hint::black_box;

use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

thread_local! {
    static HEAP: RefCell<Option<Heap>> = const { RefCell::new(None) };
}

struct Heap {
    allocated: ThreadLocal<u64>,
    freed: ThreadLocal<u64>,
    /// What it held when it began.
    base: u64,
    most: u64,
}

impl Heap {
    /// `None` where the program has another allocator, whose counters these are not.
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

    /// Counted from nothing; below it is what this thread frees for others.
    fn holds(&self) -> u64 {
        self.allocated.get().wrapping_sub(self.freed.get())
    }

    fn note(&mut self) {
        let above = self.holds().wrapping_sub(self.base);
        // Less than at the beginning is nothing, not very much.
        if above <= i64::MAX as u64 {
            self.most = self.most.max(above);
        }
    }
}

/// Counts from here on what this thread holds above what it holds now.
pub fn begin() {
    HEAP.with_borrow_mut(|heap| *heap = Heap::begin());
}

/// Takes note of what this thread holds. Costs some nanoseconds.
pub fn note() {
    HEAP.with_borrow_mut(|heap| {
        if let Some(heap) = heap {
            heap.note();
        }
    });
}

/// Makes something that another thread will free; it is on nobody's account.
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

/// Returns the most bytes that this thread held at a time since [`begin`], as far as anybody took
/// note; `None` where that is not counted.
#[must_use]
pub fn most() -> Option<u64> {
    note();
    HEAP.with_borrow(|heap| heap.as_ref().map(|heap| heap.most))
}
