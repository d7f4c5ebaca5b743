//! Ages in tables, which depend on the time of the response: two servers print neighbouring ages if
//! a second passes between their responses.

use kube_api::duration::human_duration;
use serde_json::Value;

use crate::compare::Answer;

/// Replaces bench-server's ages by the real server's if they are at most one printed step apart.
pub(crate) fn level(real: &mut Answer, ours: &mut Answer) {
    for (real, ours) in real.documents().iter_mut().zip(ours.documents()) {
        // The rows of a list, or of an event of a watch.
        for at in ["/rows", "/object/rows"] {
            if let (Some(theirs), Some(our)) = (real.pointer(at), ours.pointer_mut(at)) {
                rows(theirs, our);
            }
        }
    }
}

fn rows(real: &Value, ours: &mut Value) {
    let (Some(theirs), Some(our)) = (real.as_array(), ours.as_array_mut()) else {
        return;
    };
    for (real, ours) in theirs.iter().zip(our) {
        let (theirs, our) = (real.get("cells"), ours.get_mut("cells"));
        let theirs = theirs.and_then(Value::as_array).into_iter().flatten();
        let our = our.and_then(Value::as_array_mut).into_iter().flatten();
        for (real, ours) in theirs.zip(our) {
            if let (Some(theirs), Some(our)) = (real.as_str(), ours.as_str())
                && are_neighbours(theirs, our)
            {
                *ours = real.clone();
            }
        }
    }
}

/// Returns whether two cells are ages, like `7m59s` and `8m`, or end with ages, like `2 (59s ago)`
/// and `2 (60s ago)`, of which one is printed a second after the other.
fn are_neighbours(one: &str, other: &str) -> bool {
    let ((before, one), (other_before, other)) = (parted(one), parted(other));
    let follows = |earlier: &str, later: &str| {
        age(later).is_some_and(|first| {
            human_duration(first) == later && human_duration(first - 1) == earlier
        })
    };
    before == other_before && (follows(one, other) || follows(other, one))
}

/// Returns the text of a cell before its age, and the age.
fn parted(cell: &str) -> (&str, &str) {
    let last = cell.strip_suffix(" ago)");
    last.and_then(|cell| cell.rsplit_once('('))
        .unwrap_or(("", cell))
}

/// Returns the lowest age in seconds that is printed as `text`, or `None` if the text is not an
/// age.
fn age(mut text: &str) -> Option<i64> {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let mut seconds = None;
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit())?;
        let unit = match text.as_bytes()[end] {
            b's' => 1,
            b'm' => MINUTE,
            b'h' => HOUR,
            b'd' => DAY,
            b'y' => 365 * DAY,
            _ => return None,
        };
        let part = text[..end].parse::<i64>().ok()? * unit;
        seconds = Some(seconds.unwrap_or(0) + part);
        text = &text[end + 1..];
    }
    seconds
}

/// Checks the rule for neighbouring ages. It is a function because this binary has no unit tests.
///
/// # Panics
/// If the rule is wrong for one of its examples.
pub(crate) fn check_the_rule() {
    for (one, other) in [
        ("5s", "6s"),
        ("119s", "2m"),
        ("7m59s", "8m"),
        ("9m59s", "10m"),
        ("179m", "3h"),
        ("7h59m", "8h"),
        ("2 (59s ago)", "2 (60s ago)"),
    ] {
        assert!(are_neighbours(one, other), "{one} and {other}");
    }
    for (one, other) in [
        ("5s", "7s"),
        ("8m", "9m"),
        ("8h", "10h"),
        ("2 (59s ago)", "3 (59s ago)"),
        ("pod-1", "pod-2"),
        ("5", "6"),
        ("", ""),
    ] {
        assert!(!are_neighbours(one, other), "{one} and {other}");
    }
}
