//! Lists of custom resources: kind and metadata follow the items, each item has its own kind, and
//! the schema of its fields is unknown.

use kube_api::list::{custom_json_head, custom_json_tail};
use kube_api::{GroupVersionResource, ListMeta};
use workloads::scenario::Media;

use super::super::super::events::EventValidator;
use super::*;

const ROOT: &str = "/registry/";

fn widgets() -> ApiResource {
    ApiResource {
        name: GroupVersionResource::new("example.com", "v1", "widgets"),
        kind: "Widget".to_owned(),
        list_kind: "WidgetList".to_owned(),
        has_protobuf: false,
        ..ApiResource::core("", "")
    }
}

/// Returns items as an apiserver writes them, with sorted keys.
fn items() -> Vec<String> {
    let item = |(namespace, name, size)| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}","namespace":"{namespace}","resourceVersion":"55"}},"spec":{{"list":[{{"a":[1],"kind":"inner"}}],"kind":"x","size":{size}}}}}"#
        )
    };
    [("a-b", "w", 1), ("a", "v", 2), ("a", "w", 3)]
        .map(item)
        .to_vec()
}

fn list(items: &[String]) -> String {
    let mut body = custom_json_head("example.com/v1");
    body.extend(items.join(",").bytes());
    let meta = ListMeta {
        resource_version: 77,
        continue_token: "token".to_owned(),
        remaining_item_count: Some(9),
        ..ListMeta::default()
    };
    body.extend(custom_json_tail("WidgetList", &meta));
    String::from_utf8(body).expect("text")
}

type Found = (Page, Fingerprint, u64);

fn validated(body: &str, cut: usize, item_cache: ItemCache) -> Result<Found, InvalidResponse> {
    let mut validator = JsonValidator::new(ItemDecoder::new(ROOT, &widgets(), item_cache));
    let mut check = Check::new(ROOT);
    let (one, other) = body.as_bytes().split_at(cut);
    validator.feed(one, Some(&mut check))?;
    validator.feed(other, Some(&mut check))?;
    let page = validator.next_page(true)?;
    let listed = Listed {
        revision: page.revision,
        ..Listed::default()
    };
    let found = check.finish(&listed, None)?;
    Ok((page, found.fingerprint, found.revisions))
}

#[test]
fn a_list_is_read_wherever_frames_are_cut() {
    let body = list(&items());
    let whole = validated(&body, 0, ItemCache::default()).expect("a valid list");
    let page = &whole.0;
    assert_eq!((page.revision, page.items), (77, 3));
    assert_eq!(
        (page.continue_token.as_str(), page.remaining),
        ("token", Some(9))
    );
    let item_cache = ItemCache::default();
    for cut in 0..=body.len() {
        let found = validated(&body, cut, item_cache.clone()).expect("a valid list");
        assert_eq!(found, whole, "cut at {cut}");
    }
    let (page, fingerprint, _) =
        validated(&list(&[]), 40, ItemCache::default()).expect("a valid list");
    assert_eq!((page.revision, page.items), (77, 0));
    assert_eq!(fingerprint, Fingerprint::default());
}

/// The token is at the end, after items that are not read.
#[test]
fn an_unchecked_page_has_its_token_all_the_same() {
    let many: Vec<String> = std::iter::repeat_with(items).take(200).flatten().collect();
    let body = list(&many);
    assert!(body.len() > 4 * super::super::LONGEST_END);
    for step in [7, 4_096, 100_000] {
        let mut validator = JsonValidator::new(ItemDecoder::one_by_one(&widgets()));
        for frame in body.as_bytes().chunks(step) {
            validator.feed(frame, None).expect("not looked at");
        }
        assert_eq!(validator.items(), 1, "frames of {step}");
        let page = validator.next_page(false).expect("a page");
        assert_eq!((page.revision, page.continue_token.as_str()), (77, "token"));
        // The next page begins like the first.
        validator.feed(list(&[]).as_bytes(), None).expect("a page");
        assert_eq!(validator.items(), 0);
        assert_eq!(validator.next_page(false).expect("a page").revision, 77);
    }
    let mut validator = JsonValidator::new(ItemDecoder::one_by_one(&widgets()));
    let cut = &body.as_bytes()[..body.len() - 10];
    validator.feed(cut, None).expect("not looked at");
    assert!(validator.next_page(false).is_err(), "a page without an end");
}

#[test]
fn a_body_that_is_cut_is_wrong() {
    let body = list(&items());
    for len in 0..body.len() - 1 {
        assert!(
            validated(&body[..len], 0, ItemCache::default()).is_err(),
            "{len}"
        );
    }
    let without_line_end = validated(&body[..body.len() - 1], 0, ItemCache::default());
    assert!(without_line_end.is_ok(), "{without_line_end:?}");
}

#[test]
fn whatever_is_not_the_list_is_found() {
    let body = list(&items());
    let item_cache = ItemCache::default();
    let whole = validated(&body, 0, item_cache.clone()).expect("a valid list");
    let with = |from: &str, to: &str| {
        let changed = body.replacen(from, to, 1);
        assert_ne!(changed, body, "{from}");
        changed
    };
    for (wrong, says) in [
        (with("WidgetList", "GadgetList"), "its kind is GadgetList"),
        (
            with("example.com/v1", "example.com/v2"),
            "of example.com/v2",
        ),
        (with("\"Widget\"", "\"Gadget\""), "an item of kind Gadget"),
        (
            with(
                "{\"apiVersion\":\"example.com/v1\",\"kind\"",
                "{\"apiVersion\":\"v1\",\"kind\"",
            ),
            "an item of kind Widget of v1",
        ),
        (
            with(",\"remaining", ",\"more\":1,\"remaining"),
            "unknown field",
        ),
        (
            with("\"resourceVersion\":\"77\"", "\"resourceVersion\":\"x\""),
            "resourceVersion",
        ),
        (
            with("\"resourceVersion\":\"55\"", "\"resourceVersion\":\"\""),
            "resourceVersion",
        ),
        (with("\"name\":\"w\",", ""), "missing field"),
        (with("}}\n", "}}\n{}"), "its head"),
        (with("}}\n", "},\"items\":[]}\n"), "unknown field"),
    ] {
        for item_cache in [ItemCache::default(), item_cache.clone()] {
            let error = validated(&wrong, 0, item_cache).expect_err(says);
            assert!(error.to_string().contains(says), "{says}: {error}");
        }
    }
    let mut swapped = items();
    swapped.swap(0, 1);
    let wrong = validated(&list(&swapped), 0, item_cache.clone());
    assert!(
        matches!(wrong, Err(InvalidResponse::Order { .. })),
        "{wrong:?}"
    );
    let endless = with("\"token\"", &format!("\"{}\"", "t".repeat(20_000)));
    let error = validated(&endless, 0, item_cache.clone()).expect_err("no token is as long");
    assert!(error.to_string().contains("too much"), "{error}");
    // Another text is another object.
    for (from, to) in [("\"size\":2", "\"size\":7"), ("\"size\":2", "\"size\":2.0")] {
        let other = validated(&with(from, to), 0, item_cache.clone()).expect("a list");
        assert_ne!(other.1, whole.1, "{to}");
    }
}

/// An object is the same in a list and in a watch, even if only the watch includes its kind.
#[test]
fn the_state_of_a_watch_is_the_list() {
    let built_in = ApiResource {
        name: GroupVersionResource::new("apps", "v1", "deployments"),
        kind: "Deployment".to_owned(),
        list_kind: "DeploymentList".to_owned(),
        ..ApiResource::core("", "")
    };
    let typed = r#""kind":"Deployment","apiVersion":"apps/v1","#;
    let plain = r#"{"metadata":{"name":"d","namespace":"a","resourceVersion":"55"},"spec":{}}"#;
    let in_event = plain.replacen('{', &format!("{{{typed}"), 1);
    let head = r#"{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"77"},"items":["#;
    let custom = items().remove(0);
    for (resource, body, object, mark) in [
        (
            built_in,
            format!("{head}{plain}]}}\n"),
            in_event,
            format!("{{{typed}"),
        ),
        (
            widgets(),
            list(std::slice::from_ref(&custom)),
            custom,
            r#"{"apiVersion":"example.com/v1","kind":"Widget","#.to_owned(),
        ),
    ] {
        let mut of_list = Check::new(ROOT);
        let mut validator = JsonValidator::new(ItemDecoder::one_by_one(&resource));
        validator
            .feed(body.as_bytes(), Some(&mut of_list))
            .expect("a list");
        validator.next_page(true).expect("a list");

        let bookmark = format!(
            r#"{mark}"metadata":{{"annotations":{{"k8s.io/initial-events-end":"true"}},"resourceVersion":"77"}}}}"#
        );
        let lines = format!(
            "{{\"type\":\"ADDED\",\"object\":{object}}}\n{{\"type\":\"BOOKMARK\",\"object\":{bookmark}}}\n"
        );
        let mut of_watch = Check::new(ROOT);
        let mut events = EventValidator::new(Media::Json, ItemDecoder::one_by_one(&resource));
        events
            .feed(lines.as_bytes(), Some(&mut of_watch))
            .expect("a state");
        assert_eq!((events.items, events.end), (1, Some(77)));
        let listed = Listed {
            revision: 77,
            ..Listed::default()
        };
        let of_list = of_list.finish(&listed, None).expect("right");
        let of_watch = of_watch.finish(&listed, None).expect("right");
        assert_eq!(of_list, of_watch, "{}", resource.name);

        let other = lines.replacen(&resource.kind, "Other", 1);
        let mut events = EventValidator::new(Media::Json, ItemDecoder::one_by_one(&resource));
        let fed = events.feed(other.as_bytes(), Some(&mut Check::new(ROOT)));
        assert!(fed.is_err(), "an object of another kind: {fed:?}");
    }
}

/// Cluster-scoped resources have keys without a namespace.
#[test]
fn names_order_what_is_in_no_namespace() {
    let nodes = ApiResource {
        is_namespaced: false,
        ..ApiResource::core("nodes", "Node")
    };
    let head =
        r#"{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"77"},"items":["#;
    let node = |name| format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"55"}}}}"#);
    for (names, is_right) in [(["a", "b"], true), (["b", "a"], false)] {
        let body = format!("{head}{}]}}\n", names.map(node).join(","));
        let mut validator = JsonValidator::new(ItemDecoder::one_by_one(&nodes));
        let fed = validator.feed(body.as_bytes(), Some(&mut Check::new(ROOT)));
        assert_eq!(fed.is_ok(), is_right, "{fed:?}");
        if let Err(wrong) = fed {
            assert!(
                wrong.to_string().contains("/registry/nodes/a after"),
                "{wrong}"
            );
        }
    }
}
