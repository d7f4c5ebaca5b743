//! Ages in tables, which are of the moment of the answer: two servers print neighbouring ages where
//! one of them answers as a second turns.

use serde_json::Value;

use crate::compare::Answer;

/// Sets our ages to the real server's where they are at most one printed step apart.
pub(crate) fn level(real: &mut Answer, ours: &mut Answer) {
    for (real, ours) in real.documents().iter_mut().zip(ours.documents()) {
        // Of a watch, or of a list.
        let tables = match real["object"].is_object() {
            true => (&real["object"], &mut ours["object"]),
            false => (&*real, ours),
        };
        if tables.0["kind"] == "Table" && tables.1["kind"] == "Table" {
            cells(tables.0, tables.1);
        }
    }
}

fn cells(real: &Value, ours: &mut Value) {
    let Some(rows) = ours["rows"].as_array_mut() else {
        return;
    };
    let theirs = real["rows"].as_array().into_iter().flatten();
    for (real, ours) in theirs.zip(rows) {
        let cells = ours["cells"].as_array_mut().into_iter().flatten();
        let theirs = real["cells"].as_array().into_iter().flatten();
        for (real, ours) in theirs.zip(cells) {
            if let (Some(theirs), Some(our)) = (real.as_str(), ours.as_str())
                && are_neighbours(theirs, our)
            {
                *ours = real.clone();
            }
        }
    }
}

/// Whether two cells have the same words, and ages that are at most one step of the finer one
/// apart: `7m59s` and `8m`, `2 (59s ago)` and `2 (60s ago)`.
fn are_neighbours(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    one.len() == other.len()
        && one.iter().zip(&other).all(|(a, b)| match (age(a), age(b)) {
            (Some((a, fine)), Some((b, other_fine))) => a.abs_diff(b) <= fine.min(other_fine),
            _ => a == b,
        })
}

fn words(cell: &str) -> Vec<&str> {
    cell.split_inclusive([' ', '(', ')']).collect()
}

/// Returns an age in seconds, with the seconds of its smallest unit.
fn age(word: &str) -> Option<(u64, u64)> {
    let mut rest = word.trim_end_matches([' ', ')']);
    let (mut seconds, mut smallest) = (0, None);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let unit = match rest.as_bytes()[end] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'y' => 365 * 86_400,
            _ => return None,
        };
        seconds += rest[..end].parse::<u64>().ok()? * unit;
        smallest = Some(unit);
        rest = &rest[end + 1..];
    }
    smallest.map(|smallest| (seconds, smallest))
}
