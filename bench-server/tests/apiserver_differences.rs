//! Checks that `docs/apiserver-differences.md` names exactly the differences that
//! `real_apiserver/known_differences.rs` excludes from the comparison. The cases of
//! `real_apiserver` need a real kube-apiserver; this test always runs.

#![allow(dead_code, reason = "only the names are needed here")]

#[path = "real_apiserver/compare.rs"]
mod compare;
#[path = "kubernetes_tier/http.rs"]
mod http;
#[path = "real_apiserver/known_differences.rs"]
mod known_differences;

use std::collections::BTreeSet;

use known_differences::KNOWN_DIFFERENCES;

const DOCUMENT: &str = include_str!("../../docs/apiserver-differences.md");
/// The beginning of the first table's head. The second table is not compared.
const HEAD: &str = "| difference |";

#[test]
fn the_document_lists_what_is_known() {
    let rows = DOCUMENT
        .lines()
        .skip_while(|line| !line.starts_with(HEAD))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let written: BTreeSet<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .map(str::trim)
        .collect();
    let known: BTreeSet<&str> = KNOWN_DIFFERENCES.iter().map(|known| known.name).collect();
    assert_eq!(written, known, "the document, and known.rs");
}
