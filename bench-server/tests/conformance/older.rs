//! Servers without RangeStream: Debian's etcd 3.4, and bench-server when it emulates 3.6.

use etcd_api::error::Error;
use etcd_api::proto::etcdserverpb::{RangeRequest, StatusRequest};
use tonic::Code;

use crate::harness::{Case, Target};
use crate::peer::Peer;
use crate::request::{everything, range};

pub(crate) fn cases() -> Vec<Case> {
    [real::cases(), emulated::cases()].concat()
}

mod real {
    use super::{Peer, no_range_stream, plain_reads};
    crate::harness::cases![on &[Peer::Etcd34]; no_range_stream, plain_reads];
}

mod emulated {
    use super::{Peer, no_range_stream, plain_reads, version_is_told};
    const OLD: [&str; 1] = ["--emulate-version=3.6"];
    crate::harness::cases![on &[Peer::Bench]; no_range_stream with OLD, plain_reads with OLD, version_is_told with OLD];
}

/// Exactly this error makes clients fall back to pages.
async fn no_range_stream(t: Target) {
    let status = crate::range_stream::collect(&t, everything())
        .await
        .expect_err("a method that it does not know");
    assert_eq!(
        (status.code(), status.message()),
        (
            Code::Unimplemented,
            "unknown method RangeStream for service etcdserverpb.KV"
        )
    );
    assert!(
        matches!(Error::from(status), Error::Unimplemented(_)),
        "not taken for a refused option"
    );
}

async fn plain_reads(t: Target) {
    for key in ["a", "b", "c"] {
        t.set(key, "v").await;
    }
    let page = t
        .range(RangeRequest {
            limit: 2,
            ..everything()
        })
        .await
        .expect("range");
    assert_eq!((page.kvs.len(), page.more, page.count), (2, true, 3));
    assert_eq!(t.range(range("b", "\0")).await.expect("range").count, 2);
}

async fn version_is_told(t: Target) {
    let status = t
        .maintenance()
        .status(StatusRequest {})
        .await
        .expect("status")
        .into_inner();
    assert!(status.version.starts_with("3.6."), "{}", status.version);
}
