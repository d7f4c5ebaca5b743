//! Several tiers in front of one etcd, like several apiservers of a cluster.

use std::time::{Duration, Instant};

use crate::harness::{APART, TestCluster, cases};

cases! {
    an_object_written_by_one_is_listed_by_the_other on APART;
    a_token_is_valid_at_every_instance_and_after_restarts on APART;
}

const PATH: &str = "/api/v1/configmaps";

/// A consistent list of one tier has what another one wrote. There is no other traffic on the
/// resource, so only a progress request can bring the second cache up to date.
async fn an_object_written_by_one_is_listed_by_the_other(cluster: TestCluster) {
    let other = cluster.another().await;
    let mut slowest = Duration::ZERO;
    for i in 0..20 {
        let name = format!("cm-{i:02}");
        let (writer, reader) = if i % 2 == 0 {
            (&cluster.tier, &other)
        } else {
            (&other, &cluster.tier)
        };
        let revision = writer.config_map("ns", &name).await;
        let started = Instant::now();
        let list = reader.get(PATH).await.ok();
        slowest = slowest.max(started.elapsed());
        assert!(list.names().contains(&format!("ns/{name}")), "{name}");
        assert!(list.revision() >= revision);
    }
    // One tick of progress requests is 100 ms; the rest is for a busy machine.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

async fn a_token_is_valid_at_every_instance_and_after_restarts(mut cluster: TestCluster) {
    for i in 0..9 {
        cluster.config_map("ns", &format!("cm-{i}")).await;
    }
    let mut other = cluster.another().await;
    let page = cluster.get(&format!("{PATH}?limit=3")).await.ok();
    cluster.config_map("ns", "later").await;
    let next = other
        .get(&format!("{PATH}?limit=3&continue={}", page.token()))
        .await
        .ok();
    assert_eq!(next.names(), ["ns/cm-3", "ns/cm-4", "ns/cm-5"]);
    assert_eq!(next.revision(), page.revision());
    cluster.restart().await;
    other = cluster.another().await;
    for tier in [&cluster.tier, &other] {
        let last = tier
            .get(&format!("{PATH}?limit=3&continue={}", next.token()))
            .await
            .ok();
        assert_eq!(last.names(), ["ns/cm-6", "ns/cm-7", "ns/cm-8"]);
        assert_eq!(
            (last.revision(), last.token()),
            (page.revision(), String::new())
        );
    }
}
