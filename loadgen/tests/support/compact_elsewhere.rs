//! History that is compacted from another side.

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{CompactionRequest, PutRequest};

/// Writes a key that nobody watches, and compacts everything before that at this endpoint.
pub(crate) async fn write_elsewhere_and_compact(url: &str) {
    let config = ClientConfig::new(url).expect("a URL");
    let client = Client::connect(config).await.expect("it is there");
    let mut revision = 0;
    // Watchers go on behind the last event that they have, and one revision more is none.
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
