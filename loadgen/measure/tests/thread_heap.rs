//! Tests the heap counters of a thread, in a program whose allocator counts by thread, as the
//! generator's does.

use std::hint::black_box;
use std::thread;

use measure::heap;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MIB: usize = 1 << 20;

fn mib() -> Vec<u8> {
    black_box(vec![1; MIB])
}

#[test]
fn a_thread_answers_for_what_it_holds_and_no_other_does() {
    heap::begin();
    let kept = mib();
    drop((mib(), mib()));
    heap::note();
    let elsewhere = thread::spawn(|| {
        heap::begin();
        let four = [mib(), mib(), mib(), mib()];
        (heap::most(), four)
    });
    let (most, four) = elsewhere.join().expect("it ends");
    let near = |bytes: Option<u64>, mibs: usize| {
        let bytes = bytes.expect("this allocator counts") as usize;
        (mibs * MIB..(mibs * MIB + MIB / 2)).contains(&bytes)
    };
    assert!(near(most, 4), "{most:?}");
    assert!(near(heap::most(), 1), "{:?}", heap::most());
    // Memory that another thread allocated: freeing it here does not change what this thread held.
    drop(four);
    assert!(near(heap::most(), 1), "{:?}", heap::most());

    heap::begin();
    let away = heap::handing_away(mib);
    assert!(near(heap::most(), 0), "{:?}", heap::most());
    thread::spawn(move || drop(away)).join().expect("it ends");
    drop(kept);
    assert!(near(heap::most(), 0), "{:?}", heap::most());
}
