//! Errors that no other file covers: empty keys in all requests, sizes, unknown methods, metadata.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::{AuthenticateRequest, RangeRequest, RangeResponse};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::harness::{CURRENT, Target, assert_refused, cases};
use crate::request::{delete, everything, op, put, range, txn};
use crate::watch_stream::{WatchStream, create};

cases![on CURRENT;
    empty_keys, unknown_sort_options, future_and_compacted, requests_too_large,
    request_limit_follows_the_flag with ["--max-request-bytes=10000"], messages_too_large,
    unknown_methods, client_api_version,
];

async fn empty_keys(t: Target) {
    for end in ["", "z", "\0"] {
        assert_refused(t.range(range("", end)).await, Refusal::EmptyKey);
        assert_refused(t.delete(delete("", end)).await, Refusal::EmptyKey);
        assert_refused(
            t.range(RangeRequest {
                count_only: true,
                ..range("", end)
            })
            .await,
            Refusal::EmptyKey,
        );
    }
    assert_refused(t.put(put("", "v")).await, Refusal::EmptyKey);
    assert_eq!(t.revision().await, 1, "nothing was written");
}

async fn unknown_sort_options(t: Target) {
    for number in [3, 5, 9, -1] {
        assert_refused(
            t.range(RangeRequest {
                sort_order: number,
                ..everything()
            })
            .await,
            Refusal::InvalidSortOption,
        );
    }
    for number in [5, 9, -1] {
        assert_refused(
            t.range(RangeRequest {
                sort_target: number,
                ..everything()
            })
            .await,
            Refusal::InvalidSortOption,
        );
    }
}

async fn future_and_compacted(t: Target) {
    let revision = t.set("k", "v").await;
    assert_refused(
        t.range(RangeRequest {
            revision: revision + 1,
            ..everything()
        })
        .await,
        Refusal::FutureRevision,
    );
    assert_refused(
        t.range(RangeRequest {
            revision: i64::MAX,
            ..everything()
        })
        .await,
        Refusal::FutureRevision,
    );
    t.compact(revision, false).await.expect("compact");
    assert_refused(
        t.range(RangeRequest {
            revision: revision - 1,
            ..everything()
        })
        .await,
        Refusal::Compacted,
    );
}

async fn requests_too_large(t: Target) {
    const LIMIT: usize = 1_572_864;
    // The marshalled request is slightly larger than its value; the limit is between their sizes.
    t.put(put("fits", vec![b'v'; LIMIT - 100]))
        .await
        .expect("just below the limit");
    assert_refused(
        t.put(put("too-large", vec![b'v'; LIMIT])).await,
        Refusal::RequestTooLarge,
    );
    // etcd limits the size of the log entry, which adds a header of 18 or 19 bytes to the request,
    // depending on the member's ID.
    let marshalled = |bytes: usize| put("k", vec![b'v'; bytes - 7]);
    assert_eq!(marshalled(LIMIT).encoded_len(), LIMIT);
    for below in [0, 3, 16] {
        assert_refused(
            t.put(marshalled(LIMIT - below)).await,
            Refusal::RequestTooLarge,
        );
    }
    t.put(put("fits", vec![b'v'; LIMIT - 10 - 22]))
        .await
        .expect("22 bytes below the limit as it is sent");
    let malformed = put("", vec![b'v'; LIMIT]);
    assert_refused(t.put(malformed).await, Refusal::EmptyKey);
    let halves = ["a", "b"].map(|key| op(put(key, vec![b'v'; LIMIT / 2])));
    assert_refused(t.txn(txn(halves.to_vec())).await, Refusal::RequestTooLarge);
    assert_refused(
        t.delete(delete(vec![b'k'; LIMIT], "")).await,
        Refusal::RequestTooLarge,
    );
    let read = range(vec![b'k'; LIMIT], "");
    t.range(read.clone()).await.expect("reads are not weighed");
    t.txn(txn(vec![op(read)]))
        .await
        .expect("nor are transactions that only read");
    assert_eq!(t.all_keys().await, ["fits"]);
}

async fn request_limit_follows_the_flag(t: Target) {
    t.put(put("k", vec![b'v'; 9_900]))
        .await
        .expect("just below the limit");
    assert_refused(
        t.put(put("k", vec![b'v'; 10_000])).await,
        Refusal::RequestTooLarge,
    );
}

async fn messages_too_large(t: Target) {
    let too_large =
        |bytes: usize| format!("grpc: received message larger than max ({bytes} vs. 2097152)");
    for len in [3_000_000, 10_000_000] {
        let status = t
            .put(put("k", vec![b'v'; len]))
            .await
            .expect_err("beyond what gRPC takes");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        // The key of one byte is encoded in three bytes; the value has a tag of one byte and a
        // length of four.
        assert_eq!(status.message(), too_large(len + 3 + 5));
    }
    t.range(everything()).await.expect("the connection goes on");

    // The limit and its message are the same for other services: a stream and a single call.
    let mut watch = WatchStream::open(&t, create("k", "")).await;
    watch.created().await;
    watch.create(create("k".repeat(3_000_000), "")).await;
    let status = watch.end().await;
    // The size of the key, of its tag and length, and of those of the enclosing create request.
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, &*too_large(3_000_000 + 5 + 5))
    );
    let request = AuthenticateRequest {
        name: "n".repeat(3_000_000),
        password: String::new(),
    };
    let status = t
        .auth()
        .authenticate(request)
        .await
        .expect_err("beyond what gRPC takes");
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, &*too_large(3_000_000 + 5))
    );
}

async fn call(t: &Target, path: &'static str) -> Result<RangeResponse, Status> {
    let mut grpc = tonic::client::Grpc::new(t.channel.clone());
    grpc.ready().await.expect("the connection is up");
    let codec: ProstCodec<RangeRequest, RangeResponse> = ProstCodec::default();
    grpc.unary(
        Request::new(everything()),
        PathAndQuery::from_static(path),
        codec,
    )
    .await
    .map(|r| r.into_inner())
}

async fn unknown_methods(t: Target) {
    let rows = [
        (
            "/etcdserverpb.KV/Nope",
            "unknown method Nope for service etcdserverpb.KV",
        ),
        (
            "/etcdserverpb.Nope/Range",
            "unknown service etcdserverpb.Nope",
        ),
        (
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "unknown service grpc.reflection.v1.ServerReflection",
        ),
    ];
    for (path, text) in rows {
        let status = call(&t, path).await.expect_err(path);
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unimplemented, text),
            "{path}"
        );
    }
}

async fn client_api_version(t: Target) {
    for version in ["3.7", "99.9", "nonsense"] {
        let mut request = Request::new(everything());
        request.metadata_mut().insert(
            "client-api-version",
            version.parse().expect("a header value"),
        );
        t.kv().range(request).await.expect(version);
    }
    let mut request = Request::new(everything());
    let garbled =
        MetadataValue::<Ascii>::try_from(&b"\xff\xfe"[..]).expect("opaque bytes are legal in HTTP");
    request.metadata_mut().insert("client-api-version", garbled);
    assert_refused(
        t.kv().range(request).await,
        Refusal::InvalidClientApiVersion,
    );
}
