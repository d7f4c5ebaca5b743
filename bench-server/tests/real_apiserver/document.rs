//! The document of known differences, which must name each of them and no other.

use std::collections::BTreeSet;

use crate::known::KNOWN;

const DOCUMENT: &str = include_str!("../../../docs/apiserver-differences.md");
/// What the table's head begins with.
const HEAD: &str = "| difference |";

/// # Errors
/// The names that only one of both has.
pub(crate) fn check() -> Result<(), String> {
    let rows = DOCUMENT
        .lines()
        .skip_while(|line| !line.starts_with(HEAD))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let written: BTreeSet<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .map(str::trim)
        .collect();
    let known: BTreeSet<&str> = KNOWN.iter().map(|known| known.name).collect();
    let odd: Vec<_> = written.symmetric_difference(&known).collect();
    match odd.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "docs/apiserver-differences.md and known.rs do not agree on {odd:?}"
        )),
    }
}
