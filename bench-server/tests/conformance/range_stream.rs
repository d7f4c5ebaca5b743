//! RangeStream: its merged messages equal Range, its chunks follow etcd's layout, its revision is
//! pinned.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::range_request::SortTarget;
use etcd_api::proto::etcdserverpb::{RangeRequest, RangeResponse, ResponseHeader};
use prost::Message;
use tonic::{Code, Status, Streaming};

use crate::harness::{CURRENT, Target, assert_refused, cases};
use crate::request::{delete, everything, put, range};

cases![on CURRENT;
    layout, chunks_double_until_half_the_target,
    chunks_are_sized_to_the_byte with ["--max-request-bytes=65536"], large_values_come_in_several_chunks,
    chunks_shrink_for_large_values with ["--max-request-bytes=65536"],
    count_table, count_only_is_one_message, empty_result_is_one_message, keys_only_streams,
    writes_between_chunks_are_invisible, old_revision_keeps_its_view, partial_then_compacted,
    cancelled_stream_frees_the_server, many_streams_on_one_connection,
];

/// Returns all messages of a stream.
pub(crate) async fn collect(
    t: &Target,
    request: RangeRequest,
) -> Result<Vec<RangeResponse>, Status> {
    drain(t.kv().range_stream(request).await?.into_inner()).await
}

pub(crate) async fn drain(
    mut stream: Streaming<etcd_api::proto::etcdserverpb::RangeStreamResponse>,
) -> Result<Vec<RangeResponse>, Status> {
    let mut chunks = Vec::new();
    while let Some(message) = stream.message().await? {
        chunks.push(
            message
                .range_response
                .expect("every message carries a range response"),
        );
    }
    Ok(chunks)
}

/// Merges messages as protobuf does: repeated fields are concatenated, set scalars are overwritten.
pub(crate) fn merge(chunks: &[RangeResponse]) -> RangeResponse {
    let mut merged = RangeResponse::default();
    for chunk in chunks {
        merged
            .merge(&chunk.encode_to_vec()[..])
            .expect("an encoded message decodes");
    }
    merged
}

/// Returns the merged messages of a stream as one response.
pub(crate) async fn merged(t: &Target, request: RangeRequest) -> Result<RangeResponse, Status> {
    Ok(merge(&collect(t, request).await?))
}

/// Asserts that the merged stream of `request` equals the `unary` response, and that it has etcd's
/// layout.
pub(crate) async fn assert_stream_agrees(
    t: &Target,
    request: &RangeRequest,
    unary: &RangeResponse,
    name: &str,
) {
    let chunks = collect(t, request.clone()).await.expect(name);
    assert_eq!(
        &merge(&chunks),
        unary,
        "the merged stream equals the unary answer: {name}"
    );
    assert_layout(&chunks, name);
}

/// Asserts that only the last message has header, `more` and `count`, and that all others have
/// keys.
fn assert_layout(chunks: &[RangeResponse], name: &str) {
    let (last, others) = chunks.split_last().expect("at least one message");
    assert!(
        last.header.is_some(),
        "the last message has the header: {name}"
    );
    for (i, chunk) in others.iter().enumerate() {
        assert!(chunk.header.is_none(), "message {i} has no header: {name}");
        assert!(!chunk.kvs.is_empty(), "message {i} has keys: {name}");
        assert_eq!(
            (chunk.more, chunk.count),
            (false, 0),
            "message {i} leaves more and count: {name}"
        );
    }
}

fn sizes(chunks: &[RangeResponse]) -> Vec<usize> {
    chunks.iter().map(|chunk| chunk.kvs.len()).collect()
}

/// Writes `n` keys `PREFIXnnnnn` with values of `size` bytes; returns the last revision.
pub(crate) async fn fill(t: &Target, prefix: &str, n: usize, size: usize) -> i64 {
    const CONCURRENT_PUTS: usize = 50;
    for first in (0..n).step_by(CONCURRENT_PUTS) {
        let puts = (first..n.min(first + CONCURRENT_PUTS))
            .map(|i| t.put(put(format!("{prefix}{i:05}"), vec![b'v'; size])));
        for response in futures::future::join_all(puts).await {
            response.expect("filling");
        }
    }
    t.revision().await
}

async fn layout(t: Target) {
    fill(&t, "k", 60, 20).await;
    let chunks = collect(&t, everything()).await.expect("stream");
    assert_eq!(
        sizes(&chunks),
        [10, 20, 30],
        "small keys: 10 at first, then twice as many each time"
    );
    assert_layout(&chunks, "60 keys");
    let last = &chunks[2];
    assert_eq!((last.more, last.count), (false, 60));
    let unary = t.range(everything()).await.expect("range");
    assert_eq!(last.header, unary.header);

    let limited = RangeRequest {
        limit: 35,
        ..everything()
    };
    let chunks = collect(&t, limited).await.expect("stream");
    assert_eq!(sizes(&chunks), [10, 20, 5]);
    assert_eq!(
        (chunks[2].more, chunks[2].count),
        (true, 60),
        "the count of a limited stream is the total"
    );

    // The first chunk contains the whole response, which may fill it exactly.
    for n in [1, 9, 10] {
        let chunks = collect(
            &t,
            RangeRequest {
                limit: n,
                ..everything()
            },
        )
        .await
        .expect("stream");
        assert_eq!(sizes(&chunks), [n as usize]);
    }
    let ten = collect(&t, range("k00050", "\0")).await.expect("stream");
    assert_eq!(sizes(&ten), [10], "no empty message after a last full one");
}

async fn chunks_double_until_half_the_target(t: Target) {
    fill(&t, "k", 400, 10_240).await;
    let chunks = collect(&t, everything()).await.expect("stream");
    assert_eq!(
        sizes(&chunks),
        [10, 20, 40, 80, 80, 80, 80, 10],
        "80 keys of 10 KiB pass half of 1.5 MiB"
    );
    assert_layout(&chunks, "400 × 10 KiB");
}

/// The size that decides is that of the response which etcd reads for a chunk: with the revision,
/// `more`, and a count that ends one key after the chunk.
async fn chunks_are_sized_to_the_byte(t: Target) {
    const HALF_OF_TARGET: usize = 65_536 / 2;
    fill(&t, "k", 60, 3_000).await;
    for (short_by, next) in [(1, 20), (0, 10)] {
        let mut first_bytes = 3_000;
        for attempt in 0.. {
            assert!(attempt < 10, "no value makes the chunk {short_by} shorter");
            t.put(put("k00000", vec![b'v'; first_bytes]))
                .await
                .expect("put");
            let ten = RangeRequest {
                limit: 10,
                ..everything()
            };
            let read = t.range(ten).await.expect("range");
            let revision = read.header.as_ref().expect("header").revision;
            let sized = RangeResponse {
                header: Some(ResponseHeader {
                    revision,
                    ..ResponseHeader::default()
                }),
                count: 11,
                ..read
            };
            let wanted = HALF_OF_TARGET - short_by;
            match sized.encoded_len() {
                bytes if bytes == wanted => break,
                bytes => first_bytes = first_bytes + wanted - bytes,
            }
        }
        let chunks = collect(&t, everything()).await.expect("stream");
        assert_eq!(sizes(&chunks)[..2], [10, next], "{short_by} bytes short");
    }
}

/// etcd sends the first ten values in one chunk for any size; bench-server ends a chunk at twice
/// the target size.
async fn large_values_come_in_several_chunks(t: Target) {
    const TARGET: usize = 1_572_864;
    const VALUE: usize = 1 << 20;
    fill(&t, "k", 20, VALUE).await;
    let unary = t.range(everything()).await.expect("range");
    let chunks = collect(&t, everything()).await.expect("stream");
    assert_eq!(merge(&chunks), unary);
    assert_layout(&chunks, "20 × 1 MiB");
    if t.peer.is_bench() {
        let largest = chunks
            .iter()
            .map(|chunk| chunk.encoded_len())
            .max()
            .unwrap_or_default();
        assert!(
            largest <= 2 * TARGET + VALUE + 100,
            "a chunk of {largest} B passes the cut"
        );
    } else {
        assert_eq!(
            sizes(&chunks)[..2],
            [10, 5],
            "halved while above twice the target"
        );
    }
}

async fn chunks_shrink_for_large_values(t: Target) {
    // Small values first, then large ones: the limit grows with the small values and must decrease
    // again.
    fill(&t, "a", 70, 100).await;
    fill(&t, "b", 200, 20_000).await;
    let unary = t.range(everything()).await.expect("range");
    let chunks = collect(&t, everything()).await.expect("stream");
    assert_eq!(merge(&chunks), unary);
    assert_layout(&chunks, "70 small, 200 large");
    assert_eq!(sizes(&chunks)[..3], [10, 20, 40], "the small ones");
    let steady = &sizes(&chunks)[chunks.len() - 5..chunks.len() - 1];
    assert!(
        steady.iter().all(|&n| (2..=6).contains(&n)),
        "chunks of about 64 KiB hold two to six values of 20,000 B, not {steady:?}"
    );
    if t.peer.is_bench() {
        let largest = chunks
            .iter()
            .map(|chunk| chunk.encoded_len())
            .max()
            .unwrap_or_default();
        assert!(
            largest <= 2 * 65_536 + 20_100,
            "a chunk of {largest} B passes the cut"
        );
    }
}

async fn count_table(t: Target) {
    fill(&t, "k", 25, 10).await;
    for (limit, more, messages) in [
        (0, false, 2),
        (25, false, 2),
        (100, false, 2),
        (5, true, 1),
        (10, true, 1),
        (24, true, 2),
    ] {
        let chunks = collect(
            &t,
            RangeRequest {
                limit,
                ..everything()
            },
        )
        .await
        .expect("stream");
        let last = chunks.last().expect("a message");
        assert_eq!(
            (last.more, last.count, chunks.len()),
            (more, 25, messages),
            "limit {limit}"
        );
        assert_layout(&chunks, "25 keys");
    }
}

async fn count_only_is_one_message(t: Target) {
    fill(&t, "k", 25, 10).await;
    for limit in [0, 5] {
        let chunks = collect(
            &t,
            RangeRequest {
                count_only: true,
                limit,
                ..everything()
            },
        )
        .await
        .expect("stream");
        assert_eq!(chunks.len(), 1);
        assert_eq!(
            (chunks[0].kvs.len(), chunks[0].count, chunks[0].more),
            (0, 25, false)
        );
        assert_layout(&chunks, "count only");
    }
}

async fn empty_result_is_one_message(t: Target) {
    t.set("k", "v").await;
    for request in [
        range("x", "z"),
        range("missing", ""),
        RangeRequest {
            revision: 1,
            ..everything()
        },
    ] {
        let chunks = collect(&t, request).await.expect("stream");
        assert_eq!(chunks.len(), 1);
        assert_eq!(
            (chunks[0].kvs.len(), chunks[0].count, chunks[0].more),
            (0, 0, false)
        );
        assert_eq!(chunks[0].header.as_ref().map(|h| h.revision), Some(2));
    }
}

async fn keys_only_streams(t: Target) {
    let lease = crate::lease::grant(&t, 600, 0).await;
    for i in 0..15 {
        let mut request = put(format!("k{i:02}"), "value");
        request.lease = lease;
        t.put(request).await.expect("put");
    }
    let chunks = collect(
        &t,
        RangeRequest {
            keys_only: true,
            ..everything()
        },
    )
    .await
    .expect("stream");
    assert_eq!(sizes(&chunks), [10, 5]);
    let bare = chunks
        .iter()
        .flat_map(|chunk| &chunk.kvs)
        .all(|kv| kv.value.is_empty() && kv.lease == 0 && kv.version == 1);
    assert!(bare, "neither values nor leases, but versions");
    // With a sort target but no order, etcd sorts each chunk. All values here are the same, and few
    // keys stay in place.
    let by_value = RangeRequest {
        keys_only: true,
        limit: 8,
        sort_target: SortTarget::Value.into(),
        ..everything()
    };
    let unary = t.range(by_value.clone()).await.expect("range").kvs;
    let streamed: Vec<_> = collect(&t, by_value)
        .await
        .expect("stream")
        .into_iter()
        .flat_map(|chunk| chunk.kvs)
        .collect();
    assert!(
        streamed
            .iter()
            .all(|kv| kv.value.is_empty() && kv.lease == lease),
        "where values were looked at, the lease stays"
    );
    assert_eq!(streamed, unary);
}

async fn writes_between_chunks_are_invisible(t: Target) {
    // 20 MB, far more than flow control lets the server send to a client that does not read.
    let revision = fill(&t, "k", 2_000, 10_240).await;
    let mut stream = t
        .kv()
        .range_stream(everything())
        .await
        .expect("stream")
        .into_inner();
    let first = stream
        .message()
        .await
        .expect("a first chunk")
        .expect("a first chunk");
    let mut chunks = vec![first.range_response.expect("a range response")];
    t.set("k01999", "overwritten").await;
    t.set("k01998x", "inserted").await;
    t.delete(delete("k01500", "k01600")).await.expect("delete");
    chunks.extend(drain(stream).await.expect("the rest"));
    let merged = merge(&chunks);
    assert_eq!(
        (merged.kvs.len(), merged.count),
        (2_000, 2_000),
        "as many as when the stream began"
    );
    assert!(
        merged.kvs.iter().all(|kv| kv.value.len() == 10_240),
        "no later value shows"
    );
    assert_eq!(
        merged.header.expect("header").revision,
        revision,
        "the revision when the stream began"
    );
    assert_layout(&chunks, "with writes between");
}

async fn old_revision_keeps_its_view(t: Target) {
    let revision = fill(&t, "k", 30, 100).await;
    t.delete(delete("k00000", "k00020")).await.expect("delete");
    let latest = t.set("k00025", "new").await;
    let request = RangeRequest {
        revision,
        ..everything()
    };
    let unary = t.range(request.clone()).await.expect("range");
    assert_eq!((unary.kvs.len(), unary.count), (30, 30));
    assert_eq!(
        unary.header.as_ref().map(|h| h.revision),
        Some(latest),
        "the header tells the latest revision"
    );
    assert_stream_agrees(&t, &request, &unary, "an old revision").await;
    let limited = RangeRequest {
        limit: 12,
        ..request
    };
    let unary = t.range(limited.clone()).await.expect("range");
    assert_stream_agrees(&t, &limited, &unary, "an old revision with a limit").await;
}

async fn partial_then_compacted(t: Target) {
    fill(&t, "k", 1_000, 10_240).await;
    let mut stream = t
        .kv()
        .range_stream(everything())
        .await
        .expect("stream")
        .into_inner();
    let mut received = 0;
    while received < 10 {
        let message = stream.message().await.expect("a chunk").expect("a chunk");
        received += message.range_response.expect("a range response").kvs.len();
    }
    let revision = t.set("other", "v").await;
    t.compact(revision, true).await.expect("compact");
    assert_refused(drain(stream).await, Refusal::Compacted);
}

async fn cancelled_stream_frees_the_server(t: Target) {
    fill(&t, "k", 500, 10_240).await;
    for _ in 0..50 {
        let mut stream = t
            .kv()
            .range_stream(everything())
            .await
            .expect("stream")
            .into_inner();
        stream
            .message()
            .await
            .expect("a first chunk")
            .expect("a first chunk");
        drop(stream);
    }
    assert_eq!(
        collect(&t, everything())
            .await
            .expect("stream")
            .last()
            .expect("a message")
            .count,
        500
    );
}

async fn many_streams_on_one_connection(t: Target) {
    fill(&t, "k", 300, 1_000).await;
    let streams = (0..100).map(|i| {
        let t = &t;
        async move {
            let request = range(format!("k{:05}", i * 2), "l");
            let chunks = collect(t, request).await?;
            Ok::<_, Status>((merge(&chunks).kvs.len(), 300 - i * 2))
        }
    });
    for result in futures::future::join_all(streams).await {
        let (found, expected) = result
            .map_err(|status| (status.code() == Code::Ok, status))
            .expect("stream");
        assert_eq!(found, expected);
    }
}
