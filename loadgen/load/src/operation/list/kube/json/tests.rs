//! Lists of pods: valid, invalid, whole and cut.

mod custom_resources;

use kube_api::{ApiResource, to_json};
use workloads::{DataSet, DataSetSpec, Fingerprint, Kind};

use super::super::item_cache::ItemCache;
use super::*;
use crate::verify::Listed;

const ROOT: &str = "/registry/";

fn spec() -> DataSetSpec {
    DataSetSpec {
        name: "pods".to_owned(),
        kind: Kind::Pods,
        objects: 3.try_into().expect("some"),
        object_size: None,
        object_sizes: None,
        namespaces: 2.try_into().ok(),
        nodes: 2.try_into().ok(),
        seed: 1,
    }
}

fn data() -> DataSet {
    DataSet::new(&spec())
}

/// Returns items as a server writes them, each of revision 55.
fn items(data: &DataSet) -> Vec<Vec<u8>> {
    let item = |i| {
        let stored = data.value(i);
        let object = kube_api::envelope::open(&stored).expect("sealed");
        let item = kube_api::metadata::list_item(object, "55").expect("an object");
        let mut json = Vec::new();
        let object = kube_api::metadata::item_object(&item);
        to_json(&kube_api::schema::POD, object, "", &mut json).expect("a pod");
        json
    };
    (0..data.len()).map(item).collect()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let mut body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"77","continue":"token","remainingItemCount":9},"items":["#.to_vec();
    body.extend(items.join(&b','));
    body.extend(b"]}\n");
    body
}

fn validated(
    body: &[u8],
    cut: usize,
    item_cache: ItemCache,
) -> Result<(Page, Fingerprint, u64), InvalidResponse> {
    let mut validator = JsonValidator::new(ItemDecoder::new(
        ROOT,
        &ApiResource::core("pods", "Pod"),
        item_cache,
    ));
    let mut check = Check::new(ROOT);
    validator.feed(&body[..cut], Some(&mut check))?;
    validator.feed(&body[cut..], Some(&mut check))?;
    let page = validator.next_page(true)?;
    let listed = Listed {
        revision: page.revision,
        ..Listed::default()
    };
    let found = check.finish(&listed, None)?;
    Ok((page, found.fingerprint, found.revisions))
}

#[test]
fn items_are_turned_back_into_what_was_stored_wherever_frames_are_cut() {
    let data = data();
    let expected = data.fingerprint(0..data.len());
    let body = list(&items(&data));
    let item_cache = ItemCache::default();
    for cut in (0..=body.len()).step_by(97).chain(0..200) {
        let (page, fingerprint, revisions) =
            validated(&body, cut, item_cache.clone()).expect("a valid list");
        assert_eq!(fingerprint, expected, "cut at {cut}");
        assert_eq!(revisions, expected.sum.wrapping_mul(55));
        assert_eq!((page.revision, page.items), (77, 3));
        assert_eq!(
            (page.continue_token.as_str(), page.remaining),
            ("token", Some(9))
        );
    }
}

#[test]
fn a_remembered_item_is_no_excuse_for_another() {
    let data = data();
    let good = items(&data);
    let item_cache = ItemCache::default();
    let (.., fingerprint, revisions) =
        validated(&list(&good), 0, item_cache.clone()).expect("a valid list");

    let mut newer = good.clone();
    let text = String::from_utf8(newer[1].clone()).expect("JSON");
    newer[1] = text
        .replace("\"resourceVersion\":\"55\"", "\"resourceVersion\":\"56\"")
        .into_bytes();
    assert_ne!(newer, good);
    let (_, same, others) = validated(&list(&newer), 0, item_cache.clone()).expect("a list");
    assert_eq!(same, fingerprint);
    assert_ne!(others, revisions, "another resourceVersion shows");

    let mut altered = good.clone();
    let text = String::from_utf8(altered[2].clone()).expect("JSON");
    altered[2] = text.replace("Running", "Pending").into_bytes();
    let (_, other, _) = validated(&list(&altered), 0, item_cache.clone()).expect("a list");
    assert_ne!(other, fingerprint, "another value shows");

    // Longer and shorter than before, in the middle and at the end.
    for (place, phase) in [
        (1, "Terminating"),
        (1, "Run"),
        (2, "Terminating"),
        (2, "Run"),
    ] {
        let mut resized = good.clone();
        let text = String::from_utf8(resized[place].clone()).expect("JSON");
        resized[place] = text.replace("Running", phase).into_bytes();
        let (page, other, _) = validated(&list(&resized), 0, item_cache.clone()).expect("a list");
        assert_eq!(page.items, 3);
        assert_ne!(other, fingerprint, "{phase} at {place}");
    }

    let mut swapped = good.clone();
    swapped.swap(0, 2);
    let wrong = validated(&list(&swapped), 0, item_cache.clone());
    assert!(
        matches!(wrong, Err(InvalidResponse::Order { .. })),
        "{wrong:?}"
    );
    let repeated = [&good[..1], &good[..]].concat();
    let wrong = validated(&list(&repeated), 0, item_cache.clone());
    assert!(
        matches!(wrong, Err(InvalidResponse::Order { .. })),
        "{wrong:?}"
    );
    let (_, fewer, _) = validated(&list(&good[..2]), 0, item_cache).expect("a list");
    assert_ne!(fewer, fingerprint, "a missing item shows");
}

#[test]
fn an_item_of_an_earlier_list_is_known_by_its_bytes_alone() {
    let items = items(&data());
    let item_cache = ItemCache::default();
    validated(&list(&items), 0, item_cache.clone()).expect("a valid list");
    let mut decoder = ItemDecoder::new(ROOT, &ApiResource::core("pods", "Pod"), item_cache);
    let mut check = Check::new(ROOT);
    // Nothing after the first item is JSON: its end must not be searched for there.
    let bytes = [&items[0][..], b"}]not JSON"].concat();
    let taken = decoder.json_again(&bytes, &mut check);
    assert_eq!(taken, Ok(Some(items[0].len())));
    let in_part = decoder.json_again(&items[1][..items[1].len() - 1], &mut check);
    assert_eq!(in_part, Ok(None), "the second, without its last byte");
    let other = decoder.json_again(&items[2], &mut check);
    assert_eq!(other, Ok(None), "the third, in the second's place");
}

#[test]
fn a_body_that_is_cut_is_wrong() {
    let body = list(&items(&data()));
    let item_cache = ItemCache::default();
    for len in 0..body.len() - 1 {
        assert!(
            validated(&body[..len], 0, item_cache.clone()).is_err(),
            "{len}"
        );
    }
    let without_line_end = validated(&body[..body.len() - 1], 0, item_cache);
    assert!(without_line_end.is_ok(), "{without_line_end:?}");
    assert!(validated(b"k8s\0", 0, ItemCache::default()).is_err());
}

#[test]
fn nothing_but_the_list_may_be_there() {
    let items = items(&data());
    let body = String::from_utf8(list(&items)).expect("JSON");
    let known = ItemCache::default();
    validated(body.as_bytes(), 0, known.clone()).expect("a valid list");
    let with = |from: &str, to: &str| {
        let changed = body.replacen(from, to, 1);
        assert_ne!(changed, body, "{from}");
        changed
    };
    let first = String::from_utf8(items[0].clone()).expect("JSON");
    let second = String::from_utf8(items[1].clone()).expect("JSON");
    for (wrong, says) in [
        (with("PodList", "SecretList"), "its kind is SecretList"),
        (with("\"v1\"", "\"v2\""), "its kind is PodList of v2"),
        (with("\"v1\",", "\"v1\",\"more\":1,"), "unknown field"),
        (
            with(
                "{\"resourceVersion\":\"77\"",
                "{\"resourceVersion\":\"77\",\"a\":1",
            ),
            "unknown field",
        ),
        (with("\"77\"", "\"x\""), "resourceVersion"),
        (with(&format!("{first},"), &first), "`{` behind 1 items"),
        (
            with(&format!("{first},"), &format!("{first},,")),
            "`,` behind 1 items",
        ),
        (with(&first, &format!("{first}x")), "`x` behind 1 items"),
        (with(&second, &format!("{second} ")), "` ` behind 2 items"),
        (with("]}\n", ",]}\n"), "`]` behind 3 items"),
        (with("]}\n", "]}}\n"), "behind its end"),
        (with("]}\n", "],\"a\":1}\n"), "behind its end"),
        (with("]}\n", "]}\n{}"), "behind its end"),
        // A duplicate field, and another spelling of a field.
        (
            with("{\"metadata\":{", "{\"spec\":{},\"metadata\":{"),
            "its text is not that",
        ),
        (with("T", "t"), ""),
        (
            with("{\"metadata\"", "{\"kind\":\"Pod\",\"metadata\""),
            "its text",
        ),
    ] {
        for item_cache in [ItemCache::default(), known.clone()] {
            let error = validated(wrong.as_bytes(), 0, item_cache).expect_err(&wrong[..200]);
            assert!(error.to_string().contains(says), "{says}: {error}");
        }
    }
}

/// Changes all bytes of the head and every seventh of an item, by the case of a letter and by one
/// bit: another text is another object, or none.
#[test]
fn a_flipped_byte_never_passes_as_the_same_list() {
    let body = list(&items(&data())[..1]);
    let item_cache = ItemCache::default();
    let whole = validated(&body, 0, item_cache.clone()).expect("a valid list");
    for at in (0..200).chain((200..body.len()).step_by(7)) {
        for bit in [1, 0x20] {
            let mut flipped = body.clone();
            flipped[at] ^= bit;
            let found = validated(&flipped, 0, ItemCache::default()).ok();
            assert_ne!(found, Some(whole.clone()), "byte {at} by {bit}");
        }
    }
}

/// Lists of many items with one inserted, one removed and one changed.
#[test]
fn one_other_item_is_parsed_once_and_the_rest_not_again() {
    let data = DataSet::new(&DataSetSpec {
        objects: 40.try_into().expect("some"),
        ..spec()
    });
    let all = items(&data);
    let item_cache = ItemCache::default();
    let parsed_of = |items: &[Vec<u8>]| {
        let before = item_cache.parsed();
        let (page, ..) = validated(&list(items), 0, item_cache.clone()).expect("a valid list");
        assert_eq!(page.items, items.len() as u64);
        item_cache.parsed() - before
    };
    let mut fewer = all.clone();
    let late = fewer.remove(20);
    assert_eq!((parsed_of(&fewer), parsed_of(&fewer)), (39, 0));
    assert_eq!((parsed_of(&all), parsed_of(&all)), (1, 0), "inserted");
    assert_eq!((parsed_of(&fewer), parsed_of(&fewer)), (0, 0), "deleted");
    let mut moved = fewer.clone();
    moved.insert(20, late);
    assert_eq!(parsed_of(&moved), 0, "and there again");
    let newer = |item: &[u8]| {
        let text = String::from_utf8(item.to_vec()).expect("JSON");
        text.replace("\"resourceVersion\":\"55\"", "\"resourceVersion\":\"56\"")
            .into_bytes()
    };
    let mut changed = all.clone();
    changed[0] = newer(&all[0]);
    changed[7] = newer(&all[7]);
    assert_eq!((parsed_of(&changed), parsed_of(&changed)), (2, 0));
    // Half of the items, as a list of another namespace has them.
    assert_eq!(parsed_of(&all[20..]), 0);
}

#[test]
fn braces_and_quotes_in_strings_are_no_structure() {
    let text = br#"{"a":"}{\"]","b":[{"c":"\\"}]}, "#;
    for cut in 0..text.len() - 2 {
        let mut scan = Scan::default();
        let end = scan.end(&text[..cut]);
        assert_eq!(end, None, "cut at {cut}");
        assert_eq!(scan.end(&text[cut..]), Some(text.len() - 2 - cut));
    }
}
