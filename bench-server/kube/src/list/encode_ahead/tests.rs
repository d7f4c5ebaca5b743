use std::future::poll_fn;
use std::time::Duration;

use etcd_api::keys::KeyRange;
use index::Tree;
use kube_api::{ListMeta, envelope, from_json, schema};
use memory::open_lists::OpenLists;
use serde_json::json;

use super::*;
use crate::http::body::ResponseBody;
use crate::list::page::ObjectList;
use crate::metrics::Undecodable;
use crate::metrics::lists::{ListStats, ServedFrom};
use crate::resource::RESOURCES;
use crate::resource::media_type::{DEFAULT_MEDIA_TYPE, Encoding, MediaType};
use crate::resource::object::Object;
use crate::resource::representation::{IncludeObject, Representation};

/// The number of objects, which make about twenty frames.
const OBJECTS: usize = 500;
const OBJECT_BYTES: usize = 10_000;

static NONE: Semaphore = Semaphore::const_new(0);

async fn list(open: &Arc<OpenLists>) -> ListBody {
    objects_as_json(OBJECTS, open).await
}

async fn objects_as_json(objects: usize, open: &Arc<OpenLists>) -> ListBody {
    let mut tree = Tree::default();
    for i in 0..objects {
        let (name, text) = (format!("pod-{i:03}"), "x".repeat(OBJECT_BYTES));
        let pod = json!({"metadata": {"name": name, "namespace": "a", "annotations": {"a": text}}});
        let mut raw = Vec::new();
        from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
        let (key, value) = (format!("a/{name}"), envelope::seal("v1", "Pod", &raw));
        tree.insert(Object::decode(&RESOURCES[0], key.as_bytes(), &value, 1).expect("a pod"));
    }
    let list = ObjectList {
        meta: ListMeta::default(),
        items: tree.cursor(KeyRange::From(b"")).into(),
        count: tree.len(),
        items_len: tree.weight(),
        stats: ListStats::by(ServedFrom::Cache, ""),
        open: Some(open.open(0)),
        admitted: None,
    };
    let json = MediaType {
        encoding: Encoding::Json,
        ..DEFAULT_MEDIA_TYPE
    };
    ListBody::new(
        &RESOURCES[0],
        Representation::new(json, IncludeObject::default()),
        list,
        Undecodable::default(),
    )
    .await
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

/// Waits until the task on the other thread has ended, without polling the body.
async fn until_encoded(body: &AheadBody) {
    let is_finished = || body.encoding.as_ref().is_none_or(JoinHandle::is_finished);
    until(is_finished).await;
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    ended.expect("it is soon so");
}

#[tokio::test]
async fn frames_are_the_same_whoever_makes_them_and_in_the_same_order() {
    static CORES: Semaphore = Semaphore::const_new(2);
    let open = Arc::default();
    let mut plain = list(&open).await;
    let mut expected = Vec::new();
    while let Some(mut frame) = plain.next_frame() {
        expected.push(frame.copy_to_bytes(frame.remaining()).to_vec());
    }
    assert!(expected.len() > 16, "a long list");
    let elsewhere = AheadBody::on(&CORES, list(&open).await);
    assert!(read(elsewhere).await == expected, "made by another thread");
    let here = AheadBody::on(&NONE, list(&open).await);
    assert!(read(here).await == expected, "made when asked for");
    assert_eq!(CORES.available_permits(), 2, "the core is given back");
}

#[tokio::test]
async fn no_more_is_made_than_is_held_while_nobody_reads() {
    static CORES: Semaphore = Semaphore::const_new(1);
    let mut body = AheadBody::on(&CORES, list(&Arc::default()).await);
    assert!(next(&mut body).await.is_some());
    assert!(
        body.encoding.is_none(),
        "its client may have room for nothing"
    );
    assert!(next(&mut body).await.is_some());
    until_encoded(&body).await;
    let ready_bytes = body.ready_bytes.load(Ordering::Relaxed);
    assert!(
        (MAX_READY_BYTES..MAX_READY_BYTES + 2 * TARGET_BYTES).contains(&ready_bytes),
        "{ready_bytes}"
    );
    assert_eq!(CORES.available_permits(), 1, "others may have the core");
    // Once some frames have been read, more are encoded.
    for _ in 0..=4 {
        assert!(next(&mut body).await.is_some());
    }
    until_encoded(&body).await;
    let ready_bytes = body.ready_bytes.load(Ordering::Relaxed);
    assert!(ready_bytes >= MAX_READY_BYTES, "{ready_bytes}");
}

#[tokio::test]
async fn a_list_that_nobody_wants_any_more_is_let_go() {
    static CORES: Semaphore = Semaphore::const_new(1);
    let open = Arc::default();
    let mut body = AheadBody::on(&CORES, list(&open).await);
    for _ in 0..2 {
        assert!(next(&mut body).await.is_some());
    }
    let ready_bytes = body.ready_bytes.clone();
    drop(body);
    until(|| CORES.available_permits() == 1 && open.pinned(0).lists == 0).await;
    assert_eq!(
        ready_bytes.load(Ordering::Relaxed),
        0,
        "nothing counts as waiting"
    );
}

#[tokio::test]
async fn frames_are_made_here_until_a_core_is_free() {
    static CORES: Semaphore = Semaphore::const_new(1);
    let mut body = AheadBody::on(&CORES, list(&Arc::default()).await);
    let all = CORES.try_acquire().expect("free");
    for _ in 0..2 {
        assert!(next(&mut body).await.is_some());
    }
    assert!(body.encoding.is_none() && body.frames.is_empty(), "no core");
    drop(all);
    assert!(next(&mut body).await.is_some());
    assert!(body.encoding.is_some(), "there is one now");
}

#[tokio::test]
#[should_panic(expected = "while it made frames")]
async fn what_goes_wrong_on_the_other_thread_goes_wrong_here() {
    let mut body = AheadBody::on(&NONE, list(&Arc::default()).await);
    body.list = None;
    body.encoding = Some(spawn_blocking(|| panic!("while it made frames")));
    next(&mut body).await;
}

#[tokio::test]
async fn only_long_lists_are_made_ahead() {
    let json = |objects| async move {
        ResponseBody::list(objects_as_json(objects, &Arc::default()).await)
    };
    assert!(matches!(json(OBJECTS).await, ResponseBody::Ahead(_)));
    assert!(matches!(json(2).await, ResponseBody::List(_)));
}
