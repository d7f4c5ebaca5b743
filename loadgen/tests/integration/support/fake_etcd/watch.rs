//! The watch service of the small etcd: every watcher receives every put, independent of its range,
//! except with a fault.

use std::pin::Pin;

use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::mvccpb::{Event, KeyValue};
use pb::watch_request::RequestUnion;
use pb::watch_server::Watch;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::{Fault, Service};

type Answers = mpsc::UnboundedSender<Result<pb::WatchResponse, Status>>;

/// The watchers: the ID and the stream of each.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: Vec<(i64, Answers)>,
    /// Number of puts that were sent to the watchers.
    told: u64,
}

impl Watchers {
    /// Sends a put to the watchers.
    pub(super) fn tell(&mut self, fault: Fault, kv: KeyValue) {
        for (id, stream) in &self.all {
            let times = match (fault, id) {
                (Fault::TellTwice, 0) => 2,
                (Fault::TellTwice, 1) => 0,
                (Fault::DropEvent, 0) if self.told == 0 => 0,
                _ => 1,
            };
            for _ in 0..times {
                let event = Event {
                    kv: Some(kv.clone()),
                    ..Event::default()
                };
                let response = pb::WatchResponse {
                    watch_id: *id,
                    events: vec![event],
                    ..pb::WatchResponse::default()
                };
                // The stream may have ended.
                stream.send(Ok(response)).ok();
            }
        }
        self.told += 1;
    }
}

#[tonic::async_trait]
impl Watch for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut requests = request.into_inner();
        let (answers, receiver) = mpsc::unbounded_channel();
        let state = self.state.clone();
        tokio::spawn(async move {
            let mut next_id = 0;
            while let Some(Ok(request)) = requests.next().await {
                let Some(RequestUnion::CreateRequest(_)) = request.request_union else {
                    continue;
                };
                let created = pb::WatchResponse {
                    watch_id: next_id,
                    created: true,
                    ..pb::WatchResponse::default()
                };
                let mut state = state.lock().expect("no panic holds it");
                answers.send(Ok(created)).ok();
                state.watchers.all.push((next_id, answers.clone()));
                next_id += 1;
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            receiver,
        ))))
    }
}
