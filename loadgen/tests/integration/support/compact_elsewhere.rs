//! Compacts history through another client.

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{CompactionRequest, PutRequest};

/// Writes a key that is not watched, and compacts everything before it, at this endpoint.
pub(crate) async fn write_elsewhere_and_compact(url: &str) {
    let config = ClientConfig::new(url).expect("a URL");
    let client = Client::connect(config).await.expect("it is there");
    let mut revision = 0;
    // Watchers resume after their last event, so with a single further revision they would miss
    // nothing.
    for _ in 0..2 {
        let put = PutRequest {
            key: b"/elsewhere"[..].into(),
            ..PutRequest::default()
        };
        let put = client.kv().put(put).await.expect("it takes a write");
        revision = put.into_inner().header.expect("a header").revision;
    }
    let compaction = CompactionRequest {
        revision,
        physical: true,
    };
    let compacted = client.kv().compact(compaction).await;
    compacted.expect("it compacts");
}
