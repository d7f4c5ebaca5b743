//! Watch fragments: large responses are divided for clients that requested it.

use etcd_api::proto::etcdserverpb::{WatchCreateRequest, WatchResponse};
use prost::Message;

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::request::{delete, put};
use crate::watch_stream::{WatchStream, create};

cases![on ONE_ENCODING;
    one_large_revision_comes_in_fragments, whole_unless_asked_for, large_history_stays_below_the_threshold,
    small_ones_stay_whole,
];

/// `--max-request-bytes`, and etcd's 512 KiB of overhead for gRPC.
const THRESHOLD: usize = 1_572_864 + 512 * 1024;
const KEYS: usize = 10;
/// The revision that deletes all keys.
const DELETED: i64 = KEYS as i64 + 2;

/// Writes ten values of 400 kB, then deletes all in one request, whose events with the previous
/// values are 4 MB.
async fn history(t: &Target) {
    for i in 0..KEYS {
        t.put(put(format!("k{i}"), vec![b'v'; 400_000]))
            .await
            .expect("put");
    }
    t.delete(delete("k", "l")).await.expect("delete");
}

/// Returns the responses to a watcher from `start_revision`, up to its `n`th event.
async fn replay(t: &Target, start_revision: i64, fragment: bool, n: usize) -> Vec<WatchResponse> {
    let request = WatchCreateRequest {
        start_revision,
        fragment,
        prev_kv: true,
        ..create("\0", "\0")
    };
    let mut watch = WatchStream::open(t, request).await;
    watch.created().await;
    read(&mut watch, n).await
}

async fn read(watch: &mut WatchStream, n: usize) -> Vec<WatchResponse> {
    let mut responses = Vec::new();
    while responses
        .iter()
        .map(|r: &WatchResponse| r.events.len())
        .sum::<usize>()
        < n
    {
        responses.push(watch.next().await);
    }
    responses
}

fn revisions(responses: &[WatchResponse]) -> Vec<i64> {
    let events = responses.iter().flat_map(|response| &response.events);
    events
        .map(|event| event.kv.as_ref().expect("a key").mod_revision)
        .collect()
}

fn assert_fragments(responses: &[WatchResponse]) {
    let (last, others) = responses.split_last().expect("a response");
    assert!(
        !others.is_empty() && others.iter().all(|response| response.fragment),
        "more follows"
    );
    assert!(!last.fragment, "the last says so");
    for response in responses {
        assert!(
            response.encoded_len() <= THRESHOLD,
            "{} B in one piece",
            response.encoded_len()
        );
        assert_eq!(
            (response.watch_id, response.header.map(|h| h.revision)),
            (0, Some(DELETED))
        );
        assert!(response.events.iter().all(|e| {
            e.prev_kv
                .as_ref()
                .is_some_and(|kv| kv.value.len() == 400_000)
        }));
    }
    assert_eq!(
        revisions(responses),
        [DELETED; KEYS],
        "one revision, in pieces"
    );
}

async fn one_large_revision_comes_in_fragments(t: Target) {
    let request = WatchCreateRequest {
        fragment: true,
        prev_kv: true,
        ..create("\0", "\0")
    };
    let mut live = WatchStream::open(&t, request).await;
    live.created().await;
    history(&t).await;
    read(&mut live, KEYS).await;
    assert_fragments(&read(&mut live, KEYS).await);
    assert_fragments(&replay(&t, DELETED, true, KEYS).await);
}

async fn whole_unless_asked_for(t: Target) {
    history(&t).await;
    let responses = replay(&t, DELETED, false, KEYS).await;
    assert_eq!(responses.len(), 1, "one response, whatever its size");
    assert!(!responses[0].fragment && responses[0].encoded_len() > 4_000_000);
}

/// etcd collects up to a thousand revisions and divides them into fragments; bench-server also ends
/// a response after the revision that exceeds 64 MiB.
async fn large_history_stays_below_the_threshold(t: Target) {
    history(&t).await;
    for fragment in [true, false] {
        let responses = replay(&t, 2, fragment, 2 * KEYS).await;
        let expected: Vec<_> = (2..DELETED).chain([DELETED; KEYS]).collect();
        assert_eq!(revisions(&responses), expected);
        let largest = responses
            .iter()
            .map(|response| response.encoded_len())
            .max()
            .unwrap_or_default();
        assert_eq!(
            largest <= THRESHOLD,
            fragment,
            "{largest} B in one piece, fragments wanted: {fragment}"
        );
    }
}

async fn small_ones_stay_whole(t: Target) {
    for i in 0..KEYS {
        t.set(format!("k{i}"), "v").await;
    }
    let responses = replay(&t, 2, true, KEYS).await;
    assert!(responses.iter().all(|response| !response.fragment));
}
