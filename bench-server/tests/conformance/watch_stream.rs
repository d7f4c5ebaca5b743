//! A watch stream for cases, which is read with a time limit.

use std::time::Duration;

use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use etcd_api::proto::mvccpb::Event;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::harness::Target;

/// Time limit of an expected response.
const RESPONSE_LIMIT: Duration = Duration::from_secs(30);

/// A watch stream and its open sending half.
pub(crate) struct WatchStream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchStream {
    /// Opens a stream whose first request is `first`: etcd sends no headers before its first
    /// response.
    pub(crate) async fn open(t: &Target, first: WatchCreateRequest) -> Self {
        let (requests, receiver) = mpsc::channel(1_000);
        requests
            .send(request(RequestUnion::CreateRequest(first)))
            .await
            .expect("the channel is new");
        let responses = t
            .watch()
            .watch(ReceiverStream::new(receiver))
            .await
            .expect("the stream opens");
        Self {
            requests,
            responses: responses.into_inner(),
        }
    }

    async fn send(&self, union: RequestUnion) {
        self.requests
            .send(request(union))
            .await
            .expect("the stream takes requests");
    }

    /// Sends a request with none of its variants set.
    pub(crate) async fn send_nothing(&self) {
        let empty = WatchRequest::default();
        self.requests
            .send(empty)
            .await
            .expect("the stream takes requests");
    }

    /// Closes the sending half of the stream.
    pub(crate) fn half_closed(self) -> Self {
        let (requests, _) = mpsc::channel(1);
        Self { requests, ..self }
    }

    pub(crate) async fn create(&self, create: WatchCreateRequest) {
        self.send(RequestUnion::CreateRequest(create)).await;
    }

    pub(crate) async fn cancel(&self, watch_id: i64) {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }))
            .await;
    }

    pub(crate) async fn ask_progress(&self) {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {}))
            .await;
    }

    /// Returns the next response; fails the case if none arrives.
    pub(crate) async fn next(&mut self) -> WatchResponse {
        match tokio::time::timeout(RESPONSE_LIMIT, self.responses.message()).await {
            Ok(response) => response.expect("no error").expect("the stream goes on"),
            Err(_) => panic!("no response within {RESPONSE_LIMIT:?}"),
        }
    }

    /// Returns the status that the stream ends with; fails the case if it does not end.
    pub(crate) async fn end(&mut self) -> Status {
        match tokio::time::timeout(RESPONSE_LIMIT, self.responses.message()).await {
            Ok(response) => response.expect_err("the end of the stream"),
            Err(_) => panic!("no end within {RESPONSE_LIMIT:?}"),
        }
    }

    /// Returns the next response within `limit`, if any arrives.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Option<WatchResponse> {
        let response = tokio::time::timeout(limit, self.responses.message())
            .await
            .ok()?;
        Some(response.expect("no error").expect("the stream goes on"))
    }

    /// Expects the response to a create request; returns the watch ID.
    #[track_caller]
    pub(crate) fn created(&mut self) -> impl Future<Output = i64> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            let response = self.next().await;
            assert!(
                response.created && !response.canceled,
                "{caller}: not a creation: {response:?}"
            );
            assert_eq!(response.events, [], "{caller}: a creation brings no events");
            response.watch_id
        }
    }

    /// Returns the next `n` events, from as many responses as they take.
    pub(crate) async fn events(&mut self, n: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < n {
            events.extend(self.next().await.events);
        }
        assert_eq!(events.len(), n, "no more than expected");
        events
    }

    /// Asserts that no response is pending: the response to a watch created now must be the next
    /// one.
    pub(crate) async fn assert_quiet(&mut self) {
        self.create(WatchCreateRequest {
            watch_id: 987_654,
            ..create("quiet-marker", "")
        })
        .await;
        let response = self.next().await;
        assert_eq!(
            (response.watch_id, response.created),
            (987_654, true),
            "expected nothing, got {response:?}"
        );
        self.cancel(987_654).await;
        assert!(self.next().await.canceled);
    }
}

fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest {
        request_union: Some(union),
    }
}

pub(crate) fn create(
    key: impl Into<bytes::Bytes>,
    range_end: impl Into<bytes::Bytes>,
) -> WatchCreateRequest {
    WatchCreateRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..Default::default()
    }
}
