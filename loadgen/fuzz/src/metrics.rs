//! What a server that is measured says of itself.

use measure::MetricsText;

use super::texts;

/// A Prometheus page: whatever is on it is read or left out.
///
/// # Panics
/// When the parser does.
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

/// Pages as etcd and the bench server write them.
pub fn pages() -> Vec<Vec<u8>> {
    texts(&[
        "# HELP a_total b\n# TYPE a_total counter\na_total{x=\"} y\",z=\"\\\"\"} 1.5e3 1700000000\na_total 2\ngo_memstats_alloc_bytes 1e6\n",
        "etcd_mvcc_db_total_size_in_bytes NaN\nx_total +Inf\nx{} \n{}\n",
    ])
}
