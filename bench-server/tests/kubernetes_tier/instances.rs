//! Several tiers in front of one etcd, as a cluster has several apiservers.

use std::time::{Duration, Instant};

use crate::stage::{APART, Stage, cases};

cases! {
    what_is_written_through_one_is_read_through_the_other on APART;
    a_token_is_good_everywhere_and_after_restarts on APART;
}

const PATH: &str = "/api/v1/configmaps";

/// Check 9: no other traffic on the resource, so that only a progress request can tell the second cache.
async fn what_is_written_through_one_is_read_through_the_other(stage: Stage) {
    let other = stage.another().await;
    let mut slowest = Duration::ZERO;
    for i in 0..20 {
        let name = format!("cm-{i:02}");
        let (writer, reader) = if i % 2 == 0 {
            (&stage.tier, &other)
        } else {
            (&other, &stage.tier)
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

async fn a_token_is_good_everywhere_and_after_restarts(mut stage: Stage) {
    for i in 0..9 {
        stage.config_map("ns", &format!("cm-{i}")).await;
    }
    let mut other = stage.another().await;
    let page = stage.get(&format!("{PATH}?limit=3")).await.ok();
    stage.config_map("ns", "later").await;
    let next = other
        .get(&format!("{PATH}?limit=3&continue={}", page.token()))
        .await
        .ok();
    assert_eq!(next.names(), ["ns/cm-3", "ns/cm-4", "ns/cm-5"]);
    assert_eq!(next.revision(), page.revision());
    stage.restart().await;
    other = stage.another().await;
    for tier in [&stage.tier, &other] {
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
