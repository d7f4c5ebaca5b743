use std::future::poll_fn;
use std::sync::Arc;

use bytes::Buf;
use etcd_api::keys::KeyRange;
use kube_api::{ListMeta, envelope, from_json, schema};
use serde_json::json;

use super::*;
use crate::kube::figures::lists::{Served, ServedFrom};
use crate::kube::form::{Form, Include};
use crate::kube::media::{Encoding, Media, PLAIN};
use crate::kube::object::Object;
use crate::kube::page::Listing;
use crate::kube::resource::RESOURCES;
use crate::open_lists::OpenLists;
use crate::store::index::Tree;

/// Some twenty frames.
const OBJECTS: usize = 500;
const OBJECT_BYTES: usize = 10_000;

static NONE: Semaphore = Semaphore::const_new(0);

async fn list(open: &Arc<OpenLists>) -> ListBody {
    let mut tree = Tree::default();
    for i in 0..OBJECTS {
        let (name, text) = (format!("pod-{i:03}"), "x".repeat(OBJECT_BYTES));
        let pod = json!({"metadata": {"name": name, "namespace": "a", "annotations": {"a": text}}});
        let mut raw = Vec::new();
        from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
        let (key, value) = (format!("a/{name}"), envelope::seal("v1", "Pod", &raw));
        tree.insert(Object::decode(&RESOURCES[0], key.as_bytes(), &value, 1).expect("a pod"));
    }
    let listing = Listing {
        meta: ListMeta::default(),
        items: tree.cursor(KeyRange::From(b"")).into(),
        count: tree.len(),
        items_len: tree.weight(),
        served: Served::by(ServedFrom::Cache, ""),
        open: Some(open.open(0)),
    };
    let json = Media {
        encoding: Encoding::Json,
        ..PLAIN
    };
    ListBody::new(&RESOURCES[0], Form::new(json, Include::default()), listing).await
}

async fn next(body: &mut AheadBody) -> Option<Vec<u8>> {
    let mut frame = poll_fn(|context| body.poll_next(context)).await?;
    Some(frame.copy_to_bytes(frame.remaining()).into())
}

async fn read(mut body: AheadBody) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while !body.is_over() {
        frames.extend(next(&mut body).await);
    }
    assert!(
        next(&mut body).await.is_none(),
        "nothing comes behind the end"
    );
    frames
}

/// Waits until nobody makes frames, looked at as a connection does that has nothing to write.
async fn made(body: &AheadBody) {
    while body
        .making
        .as_ref()
        .is_some_and(|making| !making.is_finished())
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn frames_are_the_same_whoever_makes_them_and_in_the_same_order() {
    static CORES: Semaphore = Semaphore::const_new(2);
    let open = Arc::default();
    let mut list_frames = Vec::new();
    let mut plain = list(&open).await;
    while let Some(mut frame) = plain.next_frame() {
        list_frames.push(frame.copy_to_bytes(frame.remaining()).to_vec());
    }
    assert!(list_frames.len() > 2 * HELD, "a long list");
    let elsewhere = AheadBody::on(&CORES, list(&open).await);
    assert!(
        read(elsewhere).await == list_frames,
        "made by another thread"
    );
    let here = AheadBody::on(&NONE, list(&open).await);
    assert!(read(here).await == list_frames, "made when asked for");
    assert_eq!(CORES.available_permits(), 2, "the core is given back");
}

#[tokio::test]
async fn no_more_is_made_than_is_held_while_nobody_reads() {
    static CORES: Semaphore = Semaphore::const_new(1);
    let mut body = AheadBody::on(&CORES, list(&Arc::default()).await);
    assert!(next(&mut body).await.is_some());
    made(&body).await;
    assert_eq!(body.frames.len(), HELD);
    assert_eq!(CORES.available_permits(), 1, "others may have the core");
    // Read on, it is made on.
    for _ in LOW..=HELD {
        assert!(next(&mut body).await.is_some());
    }
    assert!(body.list.is_none(), "more is being made");
}

#[tokio::test]
async fn a_list_that_nobody_wants_any_more_is_let_go() {
    static CORES: Semaphore = Semaphore::const_new(1);
    let open = Arc::default();
    let mut body = AheadBody::on(&CORES, list(&open).await);
    assert!(next(&mut body).await.is_some());
    drop(body);
    while CORES.available_permits() == 0 || open.pinned(0).lists > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn frames_are_made_here_until_a_core_is_free() {
    static CORES: Semaphore = Semaphore::const_new(1);
    let mut body = AheadBody::on(&CORES, list(&Arc::default()).await);
    let all = CORES.try_acquire().expect("free");
    assert!(next(&mut body).await.is_some());
    assert!(
        body.making.is_none() && body.frames.is_empty(),
        "no core to spare"
    );
    drop(all);
    assert!(next(&mut body).await.is_some());
    assert!(body.making.is_some(), "there is one now");
}
