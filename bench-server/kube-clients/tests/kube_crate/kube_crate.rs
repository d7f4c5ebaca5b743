//! Tests of the tier with the `kube` crate: lists, both ways to watch, and a reflector during
//! faults.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_api::kubernetes::KubernetesEtcd;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams, Request, WatchEvent,
    WatchParams,
};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config, Resource};
use kube_api::{ShardKey, ShardSelector};

use crate::harness::{ALL, APART, TestCluster, cases};

cases! {
    objects_are_listed_in_pages_and_written on ALL;
    a_watcher_that_lists_first_sees_everything on ALL;
    a_streaming_list_sees_everything on ALL;
    a_reflector_outlives_a_restart_and_a_compaction on APART;
    shards_are_listed_and_watched on ALL;
}

fn client(cluster: &TestCluster) -> Client {
    let mut config = Config::new(cluster.url.parse().expect("a URL"));
    config.default_namespace = "ns".to_owned();
    Client::try_from(config).expect("a client")
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
        ..Default::default()
    }
}

fn name(object: &ConfigMap) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

async fn objects_are_listed_in_pages_and_written(cluster: TestCluster) {
    let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
    for i in 0..7 {
        let made = api
            .create(&PostParams::default(), &config_map(&format!("cm-{i}")))
            .await
            .expect("created");
        assert!(made.metadata.uid.is_some());
    }
    let all = api.list(&ListParams::default()).await.expect("a list");
    assert_eq!(all.items.len(), 7);
    let (mut names, mut token) = (Vec::new(), None);
    for _ in 0..4 {
        let mut page = ListParams::default().limit(2);
        page.continue_token = token.take();
        let page = api.list(&page).await.expect("a page");
        names.extend(page.items.iter().map(name));
        token = page.metadata.continue_.filter(|token| !token.is_empty());
    }
    assert_eq!((names.len(), token), (7, None));
    let any = api
        .list(&ListParams::default().match_any())
        .await
        .expect("a list");
    assert_eq!(any.items.len(), 7);
    let patch = Patch::Merge(serde_json::json!({"data": {"k": "2"}}));
    let patched = api
        .patch("cm-0", &PatchParams::default(), &patch)
        .await
        .expect("patched");
    assert_eq!(patched.data.unwrap_or_default()["k"], "2");
    api.delete("cm-0", &DeleteParams::default())
        .await
        .expect("deleted");
    let missing = api.get("cm-0").await.expect_err("gone");
    assert!(
        matches!(&missing, kube::Error::Api(status) if status.code == 404),
        "{missing}"
    );
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .expect("deleted");
    assert!(
        api.list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .is_empty()
    );
}

async fn a_watcher_that_lists_first_sees_everything(cluster: TestCluster) {
    sees_everything(cluster, watcher::Config::default().page_size(2)).await;
}

async fn a_streaming_list_sees_everything(cluster: TestCluster) {
    sees_everything(cluster, watcher::Config::default().streaming_lists()).await;
}

async fn sees_everything(cluster: TestCluster, config: watcher::Config) {
    for name in ["b", "a", "c"] {
        cluster.config_map("ns", name).await;
    }
    // A streaming list may start from any state of the cache, so wait until the cache is current.
    cluster.get("/api/v1/configmaps").await.ok();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
    let mut events = watcher(api, config).boxed();
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("done") {
        seen.push(brief(events.try_next().await.expect("no error")));
    }
    assert_eq!(seen, ["init", "init a", "init b", "init c", "done"]);
    cluster.config_map("ns", "d").await;
    assert_eq!(brief(events.try_next().await.expect("no error")), "apply d");
    cluster
        .delete("/api/v1/namespaces/ns/configmaps/a")
        .await
        .ok();
    assert_eq!(
        brief(events.try_next().await.expect("no error")),
        "delete a"
    );
}

fn brief(event: Option<Event<ConfigMap>>) -> String {
    match event.expect("the watcher goes on") {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("init {}", name(&object)),
        Event::InitDone => "done".to_owned(),
        Event::Apply(object) => format!("apply {}", name(&object)),
        Event::Delete(object) => format!("delete {}", name(&object)),
    }
}

async fn a_reflector_outlives_a_restart_and_a_compaction(mut cluster: TestCluster) {
    for streaming in [false, true] {
        let config = match streaming {
            true => watcher::Config::default().streaming_lists(),
            false => watcher::Config::default(),
        };
        let first = format!("first-{streaming}");
        cluster.config_map("ns", &first).await;
        let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
        let (store, writer) = reflector::store();
        let events = reflector(writer, watcher(api, config).default_backoff());
        let kept = tokio::spawn(events.for_each(|_| std::future::ready(())));
        let names = || -> Vec<String> { store.state().iter().map(|object| name(object)).collect() };
        let reaches = async |wanted: &[&str], absent: &str| {
            for _ in 0..1_200 {
                let names = names();
                if wanted
                    .iter()
                    .all(|wanted| names.iter().any(|name| name == wanted))
                    && !names.iter().any(|name| name == absent)
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            panic!("{wanted:?} without {absent:?} expected, {:?} seen", names());
        };
        reaches(&[&first], "").await;
        cluster.restart().await;
        let second = format!("second-{streaming}");
        cluster.config_map("ns", &second).await;
        reaches(&[&first, &second], "").await;
        // While the tier is down, an object is deleted and its history compacted.
        let storage = cluster.storage().await;
        cluster.stop_tier();
        let key = format!("/registry/configmaps/ns/{first}");
        let stored = storage
            .get(key.as_bytes(), Default::default())
            .await
            .expect("read")
            .kv
            .expect("stored");
        storage
            .optimistic_delete(key.as_bytes(), stored.mod_revision, Default::default())
            .await
            .expect("deleted");
        let now = storage
            .current_revision(b"/registry/configmaps")
            .await
            .expect("read");
        storage.compact(now).await.expect("compacts");
        cluster.start_tier().await;
        let third = format!("third-{streaming}");
        cluster.config_map("ns", &third).await;
        reaches(&[&second, &third], &first).await;
        kept.abort();
    }
}

/// Adds a shard selector to the URL of a request, because the crate has no parameter for it.
fn of_shard(request: http::Request<Vec<u8>>, shard: &ShardSelector) -> http::Request<Vec<u8>> {
    let (mut head, body) = request.into_parts();
    let shard = shard.to_string();
    let shard: String = form_urlencoded::byte_serialize(shard.as_bytes()).collect();
    let url = format!("{}&shardSelector={shard}", head.uri);
    head.uri = url.parse().expect("a URL");
    http::Request::from_parts(head, body)
}

fn is_in(shard: &ShardSelector, object: &ConfigMap) -> bool {
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    shard.selects(shard.key().hash(uid.as_bytes(), b"ns"))
}

async fn shards_are_listed_and_watched(cluster: TestCluster) {
    let client = client(&cluster);
    for i in 0..20 {
        cluster.config_map("ns", &format!("cm-{i:02}")).await;
    }
    let requests = Request::new(ConfigMap::url_path(&(), Some("ns")));
    let shards = ShardSelector::equal_shards(ShardKey::Uid, 3.try_into().expect("some"));
    let (mut names, mut watches) = (Vec::new(), Vec::new());
    for shard in &shards {
        let list = requests.list(&ListParams::default()).expect("a request");
        let list = of_shard(list, shard);
        let raw: serde_json::Value = client.request(list.clone()).await.expect("a list");
        assert_eq!(raw["metadata"]["shardInfo"]["selector"], shard.to_string());
        let list: ObjectList<ConfigMap> = client.request(list).await.expect("a list");
        assert!(list.items.iter().all(|object| is_in(shard, object)));
        names.extend(list.items.iter().map(name));
        let revision = list.metadata.resource_version.expect("a revision");
        let watch = requests.watch(&WatchParams::default(), &revision);
        let watch = of_shard(watch.expect("a request"), shard);
        let events = client.request_events::<ConfigMap>(watch).await;
        watches.push(events.expect("a watch").boxed());
    }
    names.sort();
    assert_eq!(names.len(), 20);
    names.dedup();
    assert_eq!(names.len(), 20, "each is in one shard");

    // Create objects until each shard has a new one.
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for (shard, events) in shards.iter().zip(&mut watches) {
        let mut own = None;
        for i in 0..200 {
            let name = format!("new-{i}-{}", shard.ranges()[0].first());
            let made = api.create(&PostParams::default(), &config_map(&name)).await;
            let made = made.expect("created");
            if is_in(shard, &made) {
                own = made.metadata.name;
                break;
            }
        }
        let own = own.expect("one of 200 is in a third");
        loop {
            match events.try_next().await.expect("no error") {
                Some(WatchEvent::Added(object)) => {
                    assert!(is_in(shard, &object), "it is of another shard");
                    if name(&object) == own {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
