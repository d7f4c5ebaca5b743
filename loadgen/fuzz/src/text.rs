//! Fuzz targets for the parameters in the URL of a list or a watch, and for scalars of objects.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube_api::selector::{FieldSelector, LabelSelector};
use kube_api::{ContinueToken, ListOptions, ShardSelector, duration, quantity, time};

use super::{refusal, texts};

/// Checks a continue token: accepted ones are written as a token that decodes to the same page.
///
/// # Panics
/// If a rule is broken.
pub fn continue_token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // The input is also tried as the content of a token.
    for token in [text.to_owned(), URL_SAFE_NO_PAD.encode(bytes)] {
        if let Ok(token) = ContinueToken::decode(&token) {
            assert_eq!(ContinueToken::decode(&token.encode()), Ok(token.clone()));
            let parts = || token.start.split('/');
            assert!(
                parts().all(|part| !matches!(part, "." | "..")),
                "{token:?} leaves its prefix"
            );
        }
    }
}

/// Returns tokens, and contents of tokens.
pub fn continue_tokens() -> Vec<Vec<u8>> {
    let token = ContinueToken::after(1_234_567, "team-a/pod-0001").encode();
    let mut seeds = texts(&[
        r#"{"v":"meta.k8s.io/v1","rv":7,"start":"default/a\u0000"}"#,
        r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"/a/b"}"#,
        r#"{"v":"meta.k8s.io/v1","rv":7,"start":"../b"}"#,
    ]);
    seeds.push(token.into_bytes());
    seeds
}

/// Checks a label selector: accepted ones can be evaluated for any object.
///
/// # Panics
/// If the parser panics.
pub fn label_selector(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(selector) = LabelSelector::parse(text) {
        let matches_unlabelled = selector.matches(|_| None);
        let required = selector.required_labels().count();
        assert!(
            !(matches_unlabelled && required > 0),
            "{text:?} requires a label and matches without"
        );
        selector.matches(|name| name.len().is_multiple_of(2).then_some(b"value".as_slice()));
    }
}

/// Returns label selectors of every operator.
pub fn label_selectors() -> Vec<Vec<u8>> {
    texts(&[
        "app=web,tier in (front, back),!canary,release notin (x),a.b/c==d,e!=f",
        "x>1,y<2",
        "a in (),b",
    ])
}

/// Checks a field selector: accepted ones can be evaluated for any object.
///
/// # Panics
/// If the parser panics.
pub fn field_selector(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(selector) = FieldSelector::parse(text, |path| path.len() < 40) {
        selector.matches(|path| if path.len() < 9 { b"a" } else { b"" });
        selector.required_value("metadata.name");
    }
}

/// Returns field selectors of every operator, with escapes.
pub fn field_selectors() -> Vec<Vec<u8>> {
    texts(&[
        "metadata.name=a,spec.nodeName!=node-1,status.phase==Running",
        r"metadata.name=a\,b\=c\\d",
    ])
}

/// Checks a shard selector: accepted ones are written as a text that parses to the same selector.
///
/// # Panics
/// If a rule is broken.
pub fn shard_selector(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(selector) = ShardSelector::parse(text) {
        assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector));
    }
}

/// Returns shard selectors of both keys.
pub fn shard_selectors() -> Vec<Vec<u8>> {
    texts(&[
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
        "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
    ])
}

/// Checks the query of a list: it is accepted, or refused with 400.
///
/// # Panics
/// If a rule is broken.
pub fn list_options(bytes: &[u8]) {
    let Ok(query) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Err(status) = ListOptions::parse(query) {
        assert_eq!(status.code, 400, "{query:?}");
    }
    ListOptions::for_single_object(query);
}

/// Returns queries with every parameter.
pub fn list_queries() -> Vec<Vec<u8>> {
    texts(&[
        "limit=500&continue=abc&resourceVersion=7&resourceVersionMatch=Exact",
        "watch=true&allowWatchBookmarks=1&sendInitialEvents=true&timeoutSeconds=5&timeout=1m",
        "labelSelector=a%3Db%2Cc&fieldSelector=metadata.name%3Dx&shardSelector=%zz&limit=-1",
    ])
}

/// Checks durations, quantities and times: the canonical form is parsed and written as the same
/// text.
///
/// # Panics
/// If a rule is broken.
pub fn scalars(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    refusal(duration::parse_duration(text));
    if let Some(canonical) = quantity::canonical(text) {
        assert_eq!(
            quantity::canonical(&canonical).as_deref(),
            Some(&*canonical),
            "{text:?}"
        );
    }
    if let Some((seconds, _)) = time::parse_rfc3339(text) {
        let mut written = Vec::new();
        time::put_rfc3339(&mut written, seconds);
        let written = String::from_utf8(written).expect("times are ASCII");
        let again = time::parse_rfc3339(&written).map(|(seconds, _)| seconds);
        assert_eq!(again, Some(seconds), "{text:?} was written as {written}");
    }
}

/// Returns scalars of each kind.
pub fn scalar_texts() -> Vec<Vec<u8>> {
    texts(&[
        "1h2m3.5s",
        "-1.5h",
        "100m",
        "0.1",
        "1.5Gi",
        "1e3",
        "12E",
        "1u",
        "-0.000000001n",
        "2026-11-24T12:00:00Z",
        "2026-11-24T12:00:00.123456+01:00",
        "9999-12-31T23:59:60Z",
    ])
}
