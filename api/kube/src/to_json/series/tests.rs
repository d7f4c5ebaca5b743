use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use workloads::{DataSet, Scenario};

use super::*;
use crate::protobuf::{put_bytes, put_int};
use crate::schema::POD;

/// Pods of `pods-150k` without their envelopes.
fn pods(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    let scenario = Scenario::named("pods-150k").expect("built in");
    let data = DataSet::new(&scenario.data_sets[0]);
    let pod = |i| {
        let value = data.value(i);
        crate::envelope::open(&value).expect("enveloped").to_vec()
    };
    numbers.into_iter().map(pod).collect()
}

/// A pod with so many finalizers, which none with another number of them is like.
fn stranger(finalizers: usize) -> Vec<u8> {
    let pod = serde_json::json!({"metadata": {"finalizers": vec!["f"; finalizers]}});
    let mut out = Vec::new();
    crate::from_json(&POD, pod.as_object().expect("an object"), &mut out).expect("a pod");
    out
}

/// The series after these objects, each of which must have the text that it has by itself; or, when it is damaged,
/// the same error behind the same text.
fn series(objects: &[Vec<u8>]) -> JsonSeries {
    let head = r#""kind":"Pod","apiVersion":"v1""#;
    let mut series = JsonSeries::new(&POD, head);
    let (mut alone, mut together) = (b"alone".to_vec(), b"alone".to_vec());
    for object in objects {
        let result = to_json(&POD, object, head, &mut alone);
        assert_eq!(series.put(object, &mut together), result);
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
    series
}

/// The object that others are compared with.
fn kept(series: &JsonSeries) -> Option<&[u8]> {
    series.is_known.then_some(&series.known.wire[..])
}

#[test]
fn pods_of_a_workload_are_written_after_one_of_them() {
    let pods = pods(0..50);
    let series = series(&pods);
    assert!(kept(&series) == Some(&pods[1]) && series.helped);
}

#[test]
fn pods_of_many_workloads_are_shown_as_each_by_itself() {
    let pods = pods((0..150_000).step_by(997));
    let series = series(&pods);
    assert!(series.helped);
}

#[test]
fn strangers_are_passed_over_until_neighbours_are_alike_again() {
    let strangers: Vec<_> = (200..400).map(stranger).collect();
    let alone = series(&strangers);
    assert!(alone.in_vain > IN_VAIN && alone.pass > 0);
    let pods = pods(0..100);
    let mixed = [strangers, pods].concat();
    assert!(series(&mixed).helped);
}

#[test]
fn a_long_object_is_not_kept() {
    let mut pod = stranger(1);
    put_bytes(&mut pod, 1000, &[0; LONGEST_BYTES]);
    assert!(kept(&series(&[pod.clone(), pod.clone(), pod])).is_none());
}

/// A pod with these labels, the keys that are empty not written.
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
fn another_key_is_never_written_in_the_place_of_one() {
    let keys = ["", "", "", "a", "a", "b", "", "b", "b", "b"];
    let objects = keys.iter().enumerate().map(|(i, key)| {
        let value = ["one", "two", "three"][i % 3];
        labelled(&[(key, value), ("c", value), ("d", "same")])
    });
    series(&objects.collect::<Vec<_>>());
}

#[test]
fn neighbours_take_the_course_of_those_before_them() {
    let pods = pods(0..100);
    let mut series = series(&pods[..20]);
    let mut out = Vec::new();
    // What of the way was not known yet is known soon.
    let followed = pods[20..].iter().filter(|pod| {
        let known = follows(&mut series, pod);
        series.put(pod, &mut out).expect("a pod");
        known
    });
    assert!(followed.count() > 70);
}

/// What is done to a field.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Remove,
    Repeat,
    /// Put before what precedes it.
    Advance,
    /// Its value made longer, or greater.
    Lengthen,
    /// Its value made empty, or zero.
    Empty,
    /// A field that the schema does not know put before it.
    Precede,
    /// Given another number.
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

/// The message with something done to one of its fields, or one of those in them: `left` fields are passed over.
fn edited(
    message: Option<&Message>,
    bytes: &[u8],
    left: &mut Option<usize>,
    edit: Edit,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = 0;
    for field in Fields::new(bytes) {
        // An edit before this one may have made a message of what is none.
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
            (Some(Kind::Object(inner)), Wire::Bytes(value)) if !here => {
                Wire::Bytes(&edited(Some(inner), value, left, edit))
            }
            _ => field.wire,
        };
        match (here.then_some(edit), value) {
            (None, Wire::Bytes(value)) => put_bytes(&mut out, field.number, value),
            (None, _) => out.extend_from_slice(whole),
            (Some(Edit::Remove), _) => {}
            (Some(Edit::Repeat), _) => out.extend_from_slice(&[whole, whole].concat()),
            (Some(Edit::Advance), _) => drop(out.splice(last..last, whole.iter().copied())),
            (Some(Edit::Lengthen), Wire::Bytes(value)) => {
                put_bytes(&mut out, field.number, &[value, b"x"].concat());
            }
            (Some(Edit::Empty), Wire::Bytes(_)) => put_bytes(&mut out, field.number, b""),
            (Some(Edit::Lengthen), _) => put_int(&mut out, field.number, 1 << 40),
            (Some(Edit::Empty), _) => put_int(&mut out, field.number, 0),
            (Some(Edit::Precede), _) => {
                put_int(&mut out, 900, 1);
                out.extend_from_slice(whole);
            }
            (Some(Edit::Renumber), Wire::Bytes(value)) => {
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

/// Fields of a pod, those in its messages among them.
const FIELDS: usize = 400;

/// These behind pods of one workload, and three such before each next one: so each is first compared with a way that is known.
fn between_neighbours(objects: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let pods = |n| PODS.iter().cycle().take(n).cloned();
    let mut all: Vec<_> = pods(8).collect();
    for object in objects {
        all.push(object);
        all.extend(pods(3));
    }
    all
}

/// Whether the series knows a way that leads through the object.
fn follows(series: &mut JsonSeries, object: &[u8]) -> bool {
    let known = &mut series.known;
    known.course.follow(&known.wire, object, &mut known.patches)
}

#[test]
fn a_way_is_known_where_damage_and_edits_are_tried() {
    let mut series = series(&between_neighbours(std::iter::empty()));
    assert!(PODS.iter().all(|pod| follows(&mut series, pod)));
}

#[test]
fn what_stands_behind_the_last_field_is_not_passed_over() {
    let mut failed = Vec::new();
    put_bytes(&mut failed, 1, b"Failed");
    let mut pod = PODS[5].clone();
    put_bytes(&mut pod, 3, &failed);
    series(&between_neighbours(std::iter::once(pod)));
}

#[test]
fn every_edit_of_every_field_is_shown_as_that_object_by_itself() {
    for edit in EDITS {
        let edited = (0..FIELDS).map(|at| edited(Some(&POD), &PODS[5], &mut Some(at), edit));
        series(&between_neighbours(edited));
    }
}

proptest! {
    #[test]
    fn neighbours_that_differ_anywhere_are_shown_as_each_by_itself(
        edits in prop::collection::vec((0..PODS.len(), prop::collection::vec((0..FIELDS, select(&EDITS[..])), 0..4)), 3..8),
    ) {
        let edited = edits.iter().map(|(pod, edits)| {
            edits.iter().fold(PODS[*pod].clone(), |pod, (at, edit)| {
                edited(Some(&POD), &pod, &mut Some(*at), *edit)
            })
        });
        series(&between_neighbours(edited));
    }

    #[test]
    fn damaged_neighbours_are_refused_or_shown_as_each_by_itself(
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
        series(&between_neighbours(damaged));
    }
}
