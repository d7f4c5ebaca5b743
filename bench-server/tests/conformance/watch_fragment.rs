//! Watch fragments: large responses in pieces, for clients that asked for them.

use etcd_api::proto::etcdserverpb::{WatchCreateRequest, WatchResponse};
use prost::Message;

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::request::put;
use crate::watch::{WatchStream, create};

cases![on ONE_ENCODING; large_responses_come_in_fragments, whole_unless_asked_for, small_ones_stay_whole];

/// `--max-request-bytes` and etcd's 512 KiB for gRPC around it.
const THRESHOLD: usize = 1_572_864 + 512 * 1024;

/// Ten values of 400 kB: 4 MB of history, which a new watcher gets in one response.
async fn history(t: &Target) {
    for i in 0..10 {
        t.put(put(format!("k{i}"), vec![b'v'; 400_000]))
            .await
            .expect("put");
    }
}

async fn replay(t: &Target, fragment: bool) -> Vec<WatchResponse> {
    let request = WatchCreateRequest {
        start_revision: 2,
        fragment,
        ..create("\0", "\0")
    };
    let mut watch = WatchStream::open(t, request).await;
    watch.created().await;
    let mut responses = Vec::new();
    while responses
        .iter()
        .map(|r: &WatchResponse| r.events.len())
        .sum::<usize>()
        < 10
    {
        responses.push(watch.next().await);
    }
    responses
}

async fn large_responses_come_in_fragments(t: Target) {
    history(&t).await;
    let responses = replay(&t, true).await;
    let (last, others) = responses.split_last().expect("a response");
    assert!(
        !others.is_empty() && others.iter().all(|response| response.fragment),
        "more follows"
    );
    assert!(!last.fragment, "the last says so");
    for response in &responses {
        assert!(
            response.encoded_len() <= THRESHOLD,
            "{} B in one piece",
            response.encoded_len()
        );
        assert_eq!(
            (
                response.watch_id,
                response.header.as_ref().map(|h| h.revision)
            ),
            (0, Some(11))
        );
    }
    let revisions: Vec<_> = responses
        .iter()
        .flat_map(|r| &r.events)
        .map(|e| e.kv.as_ref().expect("a key").mod_revision)
        .collect();
    assert_eq!(revisions, (2..12).collect::<Vec<_>>());
}

async fn whole_unless_asked_for(t: Target) {
    history(&t).await;
    let responses = replay(&t, false).await;
    assert_eq!(responses.len(), 1, "one response, whatever its size");
    assert!(!responses[0].fragment);
    assert!(responses[0].encoded_len() > 4_000_000);
}

async fn small_ones_stay_whole(t: Target) {
    for i in 0..10 {
        t.set(format!("k{i}"), "v").await;
    }
    let responses = replay(&t, true).await;
    assert!(responses.iter().all(|response| !response.fragment));
}
