//! The bytes of a watch: those of an ordinary encoder, whatever the sizes of its events.

use std::pin::pin;
use std::task::Waker;

use bytes::{Buf as _, BytesMut};
use clap::Parser as _;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, PutRequest};
use etcd_api::proto::mvccpb::Event;
use etcd_api::proto::mvccpb::event::EventType;
use futures::StreamExt as _;
use prost::Message as _;
use store::{Config, Store};

use super::*;
use crate::flags::Flags;

/// Below the size that is referenced, above it, and above the size from which on records are
/// stored in two pieces.
const SIZES: [usize; 6] = [0, 10, 3_000, 5_000, 70_000, 1_300_000];

fn node() -> Arc<Node> {
    let flags = Flags::parse_from(["bench-server"]);
    let store = Store::new(Config::default());
    Arc::new(Node::new(store, &flags.etcd, &flags.common, Vec::new()))
}

fn put(node: &Node, key: &str, bytes: usize) {
    let request = PutRequest {
        key: key.to_owned().into(),
        value: vec![b'v'; bytes].into(),
        ..Default::default()
    };
    node.store.put(&request).expect("a plain put");
}

fn delete(node: &Node, key: &str) {
    let request = DeleteRangeRequest {
        key: key.to_owned().into(),
        ..Default::default()
    };
    node.store.delete_range(&request).expect("a plain delete");
}

/// Returns a request to watch everything from revision 1.
fn from_the_start() -> WatchCreateRequest {
    WatchCreateRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        start_revision: 1,
        ..Default::default()
    }
}

/// Returns the frames of a watch that has caught up.
async fn frames(node: &Arc<Node>, create: WatchCreateRequest) -> Vec<Frame> {
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    let requests = futures::stream::iter([Ok(request)]).chain(futures::stream::pending());
    let mut watch = pin!(WatchFrames::new(node.clone(), requests, None));
    let mut context = Context::from_waker(Waker::noop());
    let mut frames = Vec::new();
    let mut idle = 0;
    // A long part of the history may need several polls.
    while idle < 100 {
        match watch.as_mut().poll_next(&mut context) {
            Poll::Ready(next) => frames.push(next.expect("it goes on").expect("no error")),
            Poll::Pending => idle += 1,
        }
    }
    frames
}

/// Returns the messages in the frames, each of which must have the bytes of an ordinary encoder.
fn decoded(frames: Vec<Frame>) -> Vec<WatchResponse> {
    let mut bytes = BytesMut::new();
    for mut frame in frames {
        bytes.extend_from_slice(&frame.copy_to_bytes(frame.remaining()));
    }
    let mut responses = Vec::new();
    while bytes.has_remaining() {
        let prefix = bytes.split_to(grpc::PREFIX_BYTES);
        assert_eq!(prefix[0], 0, "uncompressed");
        let len = u32::from_be_bytes(prefix[1..].try_into().expect("four bytes")) as usize;
        let message = bytes.split_to(len);
        let response = WatchResponse::decode(&message[..]).expect("a response");
        assert!(response.encode_to_vec() == message, "{}", responses.len());
        responses.push(response);
    }
    responses
}

#[tokio::test]
async fn events_of_all_sizes_have_the_bytes_of_an_ordinary_encoder() {
    let node = node();
    for bytes in SIZES {
        put(&node, "a", bytes);
        put(&node, "a", bytes + 1);
        delete(&node, "a");
    }
    for prev_kv in [false, true] {
        let create = WatchCreateRequest {
            prev_kv,
            ..from_the_start()
        };
        let responses = decoded(frames(&node, create).await);
        assert!(responses[0].created && responses[0].events.is_empty());
        let events: Vec<Event> = responses.into_iter().flat_map(|r| r.events).collect();
        assert_eq!(events.len(), 3 * SIZES.len());
        for (at, event) in events.iter().enumerate() {
            let kv = event.kv.as_ref().expect("the key");
            assert_eq!(kv.mod_revision, at as i64 + 2);
            let kind = match at % 3 {
                2 => EventType::Delete,
                _ => EventType::Put,
            };
            assert_eq!(event.r#type, i32::from(kind));
            let bytes = SIZES[at / 3];
            assert_eq!(kv.value.len(), [bytes, bytes + 1, 0][at % 3]);
            let prev = event.prev_kv.as_ref().map(|prev| prev.value.len());
            let known = [None, Some(bytes), Some(bytes + 1)][at % 3];
            assert_eq!(prev, known.filter(|_| prev_kv));
        }
    }
}

#[tokio::test]
async fn a_long_history_is_sent_in_frames_that_copy_little() {
    let node = node();
    for at in 0..20_000 {
        put(&node, &format!("{at:06}"), 100);
    }
    for at in 0..20 {
        put(&node, &format!("large-{at}"), 1_000_000);
    }
    let frames = frames(&node, from_the_start()).await;
    let whole: usize = frames.iter().map(Frame::remaining).sum();
    assert!(whole > 20_000_000);
    // A frame ends with the record that fills it.
    let largest = frames.iter().map(Frame::remaining).max();
    assert!(largest.expect("some") < 256 * 1024 + 1_001_000);
    let responses = decoded(frames);
    let events: Vec<usize> = responses.iter().map(|r| r.events.len()).collect();
    assert_eq!(events.iter().sum::<usize>(), 20_020);
    // etcd's batches.
    assert_eq!(events.into_iter().max(), Some(1_000));
}

#[tokio::test]
async fn a_response_is_split_only_on_request_into_messages_below_the_limit() {
    let node = node();
    let limit_bytes = node.max_message_bytes();
    for bytes in [900_000, 1_000_000, 100_000, 1_400_000, 1_400_000, 10] {
        put(&node, "a", bytes);
    }
    let whole = decoded(frames(&node, from_the_start()).await);
    assert_eq!(whole[1].events.len(), 6);
    assert!(!whole[1].fragment);
    let create = WatchCreateRequest {
        fragment: true,
        ..from_the_start()
    };
    let fragments = decoded(frames(&node, create).await).split_off(1);
    let events: Vec<usize> = fragments.iter().map(|f| f.events.len()).collect();
    assert_eq!(events, [3, 1, 2]);
    assert!(fragments.iter().all(|f| f.encoded_len() < limit_bytes));
    let marks: Vec<bool> = fragments.iter().map(|f| f.fragment).collect();
    assert_eq!(marks, [true, true, false]);
    let joined: Vec<Event> = fragments.into_iter().flat_map(|f| f.events).collect();
    assert!(joined == whole[1].events);
}

#[tokio::test]
async fn a_small_response_is_not_split() {
    let node = node();
    put(&node, "a", 10);
    put(&node, "a", 10);
    let create = WatchCreateRequest {
        fragment: true,
        ..from_the_start()
    };
    let responses = decoded(frames(&node, create).await);
    assert_eq!(responses.len(), 2);
    assert_eq!(responses[1].events.len(), 2);
    assert!(!responses[1].fragment);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_deadline() {
    let deadline = Instant::now() + Duration::from_secs(3);
    let requests = futures::stream::pending::<Result<WatchRequest, Status>>();
    let mut watch = pin!(WatchFrames::new(node(), requests, Some(deadline)));
    let ended = watch.next().await.expect("an error");
    assert_eq!(
        ended.expect_err("the deadline").code(),
        Code::DeadlineExceeded
    );
    assert_eq!(Instant::now(), deadline);
}

#[tokio::test]
async fn a_request_that_cannot_be_read_ends_the_watch() {
    let create = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(from_the_start())),
    };
    let broken = Err(Status::internal("broken"));
    let requests = futures::stream::iter([Ok(create), broken]);
    let watch = WatchFrames::new(node(), requests, None);
    let ends: Vec<_> = watch.take(1).collect().await;
    let status = ends[0].as_ref().expect_err("the client's fault");
    assert_eq!(status.message(), "broken");
}
