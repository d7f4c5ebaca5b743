//! Fuzz targets for the metrics and profiles of measured servers.

use measure::MetricsText;
use report::flame_graph::stacks::Stacks;

use super::{refusal, texts};

/// Checks a Prometheus page: each line is read or skipped.
///
/// # Panics
/// If the parser panics.
pub fn page(bytes: &[u8]) {
    let page = MetricsText::new(String::from_utf8_lossy(bytes).into_owned());
    let text = String::from_utf8_lossy(bytes);
    let named = text.contains("allocated") || text.contains("heap_inuse");
    assert!(
        named || page.allocated().is_none(),
        "found what is not on the page"
    );
    for name in page.totals().keys() {
        assert!(name.contains("_total"), "{name:?}");
    }
}

/// Returns pages like those of etcd and bench-server.
pub fn pages() -> Vec<Vec<u8>> {
    texts(&[
        "# HELP a_total b\n# TYPE a_total counter\na_total{x=\"} y\",z=\"\\\"\"} 1.5e3 1700000000\na_total 2\ngo_memstats_alloc_bytes 1e6\n",
        "etcd_mvcc_db_total_size_in_bytes NaN\nx_total +Inf\nx{} \n{}\n",
    ])
}

/// Checks a profile of a Go server: an accepted profile is saved as stacks that are read back the
/// same.
///
/// # Panics
/// If a rule is broken.
pub fn profile(bytes: &[u8]) {
    match Stacks::from_message(bytes) {
        Ok(stacks) => {
            let kept = stacks.to_folded().expect("memory takes everything");
            let again = Stacks::from_folded(&kept).expect("what was kept is read");
            assert_eq!(again, stacks);
            assert!(stacks.hottest(5).len() <= 5);
        }
        refused => refusal(refused),
    }
}

/// Returns a profile of three stacks of two functions, one inlined into the other.
pub fn profiles() -> Vec<Vec<u8>> {
    let message = [
        // The sample types: samples, and nanoseconds of CPU time.
        &b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04"[..],
        b"\x12\x0a\x0a\x02\x02\x01\x12\x04\x03\xc0\x96\xb1",
        b"\x12\x07\x0a\x01\x01\x12\x02\x01\x09",
        // The locations, and their functions.
        b"\x22\x08\x08\x01\x18\x10\x22\x02\x08\x07",
        b"\x22\x0c\x08\x02\x18\x20\x22\x02\x08\x08\x22\x02\x08\x07",
        b"\x2a\x04\x08\x07\x10\x05\x2a\x04\x08\x08\x10\x06",
        b"\x32\x00\x32\x07samples\x32\x05count\x32\x03cpu\x32\x0bnanoseconds",
        b"\x32\x09main.main\x32\x09main.copy",
    ];
    vec![message.concat()]
}
