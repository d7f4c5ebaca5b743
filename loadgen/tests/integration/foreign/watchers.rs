//! Watchers of a server that does not send all events to each of them.

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error;
use etcd_api::proto::etcdserverpb::PutRequest;
use load::operation::watch::{Deliveries, Watched, Watchers};

use crate::support::fake_etcd::{FakeEtcd, Fault};

const WATCHERS: u32 = 6;
const PUTS: u32 = 2;

/// Makes two puts with six watchers on three streams. Returns the number of latencies, or an error
/// unless each watcher receives each event once.
async fn deliver(fault: Fault) -> Result<u64, Error> {
    let etcd = FakeEtcd::start(fault);
    let config = ClientConfig::new(&etcd.url())?;
    let deliveries = Deliveries::new(0, PUTS);
    let watched = Watched::Together("/watched/".to_owned());
    let watchers = Watchers::create(&config, &watched, WATCHERS, 3, &deliveries).await?;
    let client = Client::connect(config).await?;
    for number in 0..PUTS {
        let put = PutRequest {
            key: "/watched/key".into(),
            value: deliveries.send(number, 16),
            ..PutRequest::default()
        };
        client.kv().put(put).await?;
    }
    deliveries.reached(u64::from(WATCHERS * PUTS)).await?;
    Ok(watchers.close().await?.n())
}

#[tokio::test]
async fn every_watcher_is_told_of_every_put() {
    let latencies = deliver(Fault::None).await.expect("an honest server");
    assert_eq!(latencies, u64::from(WATCHERS * PUTS));
}

#[tokio::test]
async fn an_event_that_is_told_twice_does_not_make_up_for_one_that_is_not() {
    let error = deliver(Fault::TellTwice)
        .await
        .expect_err("a broken server");
    let text = "watcher 0 got the event of put 0 where that of put 1 was due";
    assert!(error.to_string().contains(text), "{error}");
}

#[tokio::test]
async fn a_dropped_event_is_found_with_the_next() {
    let error = deliver(Fault::DropEvent)
        .await
        .expect_err("a broken server");
    let text = "watcher 0 got the event of put 1 where that of put 0 was due";
    assert!(error.to_string().contains(text), "{error}");
}
