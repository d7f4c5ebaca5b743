use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use workloads::{DataSet, Scenario};

use super::*;
use crate::protobuf::{put_bytes, put_int};
use crate::schema::POD;

/// Returns pods of `pods-150k` without their envelopes.
fn pods(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    let scenario = Scenario::named("pods-150k").expect("built in");
    let data = DataSet::new(&scenario.data_sets[0]);
    let pod = |i| {
        let value = data.value(i);
        crate::envelope::open(&value).expect("enveloped").to_vec()
    };
    numbers.into_iter().map(pod).collect()
}

/// Returns a pod with this number of finalizers. Pods with different numbers cannot share a base.
fn unlike_pod(finalizers: usize) -> Vec<u8> {
    let pod = serde_json::json!({"metadata": {"finalizers": vec!["f"; finalizers]}});
    let mut out = Vec::new();
    crate::from_json(&POD, pod.as_object().expect("an object"), &mut out).expect("a pod");
    out
}

/// Writes these objects and compares the text of each with [`to_json`]'s. A malformed object must
/// give the same error after the same text.
fn writer_after(objects: &[Vec<u8>]) -> JsonDeltaWriter {
    let head = r#""kind":"Pod","apiVersion":"v1""#;
    let mut writer = JsonDeltaWriter::new(&POD, head);
    let (mut alone, mut together) = (b"alone".to_vec(), b"alone".to_vec());
    for object in objects {
        let result = to_json(&POD, object, head, &mut alone);
        assert_eq!(writer.put(object, &mut together), result);
        let same = together
            .iter()
            .zip(&alone)
            .take_while(|(one, other)| one == other);
        let same = same.count();
        let near = |text: &[u8]| {
            let part = &text[same.saturating_sub(80)..text.len().min(same + 80)];
            String::from_utf8_lossy(part).into_owned()
        };
        assert!(together == alone, "{}\n{}", near(&together), near(&alone));
        alone.truncate(5);
        together.truncate(5);
    }
    writer
}

/// Returns the object that others are compared with.
fn base_of(writer: &JsonDeltaWriter) -> Option<&[u8]> {
    writer.has_base.then_some(&writer.base.wire[..])
}

#[test]
fn pods_of_a_workload_share_a_base() {
    let pods = pods(0..50);
    let writer = writer_after(&pods);
    assert!(base_of(&writer) == Some(&pods[1]) && writer.was_used);
}

#[test]
fn pods_of_many_workloads_equal_to_json() {
    let pods = pods((0..150_000).step_by(997));
    let writer = writer_after(&pods);
    assert!(writer.was_used);
}

#[test]
fn comparing_resumes_when_neighbours_are_alike_again() {
    let unlike_pods: Vec<_> = (200..400).map(unlike_pod).collect();
    let alone = writer_after(&unlike_pods);
    assert!(alone.unused_bases > MAX_UNUSED_BASES && alone.skip > 0);
    let pods = pods(0..100);
    let mixed = [unlike_pods, pods].concat();
    assert!(writer_after(&mixed).was_used);
}

#[test]
fn a_long_object_is_no_base() {
    let mut pod = unlike_pod(1);
    put_bytes(&mut pod, 1000, &[0; MAX_OBJECT_BYTES]);
    assert!(base_of(&writer_after(&[pod.clone(), pod.clone(), pod])).is_none());
}

/// Returns a pod with these labels. Entries with an empty key are written without a key.
fn labelled(labels: &[(&str, &str)]) -> Vec<u8> {
    let mut metadata = Vec::new();
    put_bytes(&mut metadata, 1, b"name");
    for (key, value) in labels {
        let mut entry = Vec::new();
        if !key.is_empty() {
            put_bytes(&mut entry, 1, key.as_bytes());
        }
        put_bytes(&mut entry, 2, value.as_bytes());
        put_bytes(&mut metadata, 11, &entry);
    }
    let mut pod = Vec::new();
    put_bytes(&mut pod, 1, &metadata);
    pod
}

#[test]
fn a_label_with_another_key_is_not_patched() {
    let keys = ["", "", "", "a", "a", "b", "", "b", "b", "b"];
    let objects = keys.iter().enumerate().map(|(i, key)| {
        let value = ["one", "two", "three"][i % 3];
        labelled(&[(key, value), ("c", value), ("d", "same")])
    });
    writer_after(&objects.collect::<Vec<_>>());
}

#[test]
fn neighbours_differ_where_predicted() {
    let pods = pods(0..100);
    let mut writer = writer_after(&pods[..20]);
    let mut out = Vec::new();
    // Differences that were not predicted are recorded, so later predictions hold.
    let followed = pods[20..].iter().filter(|pod| {
        let known = is_predicted(&mut writer, pod);
        writer.put(pod, &mut out).expect("a pod");
        known
    });
    assert!(followed.count() > 70);
}

/// An edit of a field.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Remove,
    Repeat,
    /// Moves the field before the preceding one.
    Advance,
    /// Makes the value longer or greater.
    Lengthen,
    /// Makes the value empty or zero.
    Empty,
    /// Inserts a field before it that the schema does not have.
    Precede,
    /// Gives the field another number.
    Renumber,
}

const EDITS: [Edit; 7] = [
    Edit::Remove,
    Edit::Repeat,
    Edit::Advance,
    Edit::Lengthen,
    Edit::Empty,
    Edit::Precede,
    Edit::Renumber,
];

/// Returns the message with one of its fields edited. `left` is the number of fields, nested ones
/// included, that precede it.
fn edited(
    message: Option<&Message>,
    bytes: &[u8],
    left: &mut Option<usize>,
    edit: Edit,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = 0;
    for field in Fields::new(bytes) {
        // An earlier edit may have produced a malformed message.
        let Ok(field) = field else {
            return bytes.to_vec();
        };
        let kind = message.and_then(|message| {
            let position = message.position(field.number)?;
            Some(message.fields()[usize::from(position)].kind)
        });
        let here = *left == Some(0);
        *left = left.and_then(|left| left.checked_sub(1));
        let start = out.len();
        let whole = &bytes[field.start..field.end];
        let value = match (kind, field.wire) {
            (Some(Kind::Object(inner)), WireValue::Bytes(value)) if !here => {
                WireValue::Bytes(&edited(Some(inner), value, left, edit))
            }
            _ => field.wire,
        };
        match (here.then_some(edit), value) {
            (None, WireValue::Bytes(value)) => put_bytes(&mut out, field.number, value),
            (None, _) => out.extend_from_slice(whole),
            (Some(Edit::Remove), _) => {}
            (Some(Edit::Repeat), _) => out.extend_from_slice(&[whole, whole].concat()),
            (Some(Edit::Advance), _) => drop(out.splice(last..last, whole.iter().copied())),
            (Some(Edit::Lengthen), WireValue::Bytes(value)) => {
                put_bytes(&mut out, field.number, &[value, b"x"].concat());
            }
            (Some(Edit::Empty), WireValue::Bytes(_)) => put_bytes(&mut out, field.number, b""),
            (Some(Edit::Lengthen), _) => put_int(&mut out, field.number, 1 << 40),
            (Some(Edit::Empty), _) => put_int(&mut out, field.number, 0),
            (Some(Edit::Precede), _) => {
                put_int(&mut out, 900, 1);
                out.extend_from_slice(whole);
            }
            (Some(Edit::Renumber), WireValue::Bytes(value)) => {
                put_bytes(&mut out, field.number + 1, value);
            }
            (Some(Edit::Renumber), _) => put_int(&mut out, field.number + 1, 1),
        }
        last = start;
    }
    out
}

/// The first pods.
static PODS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| pods(0..12));

/// Number of fields of a pod, nested ones included.
const FIELDS: usize = 400;

/// Inserts pods of one workload before each of these objects, so that each is first compared by the
/// prediction.
fn between_neighbours(objects: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let pods = |n| PODS.iter().cycle().take(n).cloned();
    let mut all: Vec<_> = pods(8).collect();
    for object in objects {
        all.push(object);
        all.extend(pods(3));
    }
    all
}

/// Returns whether the predicted differences hold for the object.
fn is_predicted(writer: &mut JsonDeltaWriter, object: &[u8]) -> bool {
    let base = &mut writer.base;
    base.prediction.apply(&base.wire, object, &mut base.patches)
}

#[test]
fn the_edited_pods_have_a_prediction() {
    let mut writer = writer_after(&between_neighbours(std::iter::empty()));
    assert!(PODS.iter().all(|pod| is_predicted(&mut writer, pod)));
}

#[test]
fn a_field_after_the_last_predicted_one_is_written() {
    let mut failed = Vec::new();
    put_bytes(&mut failed, 1, b"Failed");
    let mut pod = PODS[5].clone();
    put_bytes(&mut pod, 3, &failed);
    writer_after(&between_neighbours(std::iter::once(pod)));
}

#[test]
fn any_edit_of_any_field_equals_to_json() {
    for edit in EDITS {
        let edited = (0..FIELDS).map(|at| edited(Some(&POD), &PODS[5], &mut Some(at), edit));
        writer_after(&between_neighbours(edited));
    }
}

proptest! {
    #[test]
    fn neighbours_that_differ_anywhere_equal_to_json(
        edits in prop::collection::vec((0..PODS.len(), prop::collection::vec((0..FIELDS, select(&EDITS[..])), 0..4)), 3..8),
    ) {
        let edited = edits.iter().map(|(pod, edits)| {
            edits.iter().fold(PODS[*pod].clone(), |pod, (at, edit)| {
                edited(Some(&POD), &pod, &mut Some(*at), *edit)
            })
        });
        writer_after(&between_neighbours(edited));
    }

    #[test]
    fn malformed_neighbours_equal_to_json(
        damage in prop::collection::vec((any::<Index>(), any::<u8>(), any::<bool>(), any::<Index>()), 3..8),
    ) {
        let damaged = damage.into_iter().zip(PODS[3..].iter().cloned()).map(|((at, byte, cut, end), mut pod)| {
            let at = at.index(pod.len());
            pod[at] = byte;
            if cut {
                pod.truncate(end.index(pod.len()));
            }
            pod
        });
        writer_after(&between_neighbours(damaged));
    }
}
