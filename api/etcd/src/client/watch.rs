//! Watches over shared streams: one gRPC stream per stream key, with any number of watches on it.
//!
//! A task per stream owns both directions. It delivers items to each watch through a bounded queue,
//! in the order in which the server sent them, so progress cannot overtake events. Watches that
//! share a stream share back-pressure: if one is not read, it delays the others and the creation of
//! new ones on that stream. A cache therefore uses a stream key of its own. Watches are not
//! resumed: when the stream breaks, every watch on it ends with [`WatchError::Transport`], and its
//! owner lists again.

use std::collections::{HashMap, VecDeque};

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, Streaming};

use super::Client;
use crate::error::Error;
use crate::kubernetes::{EventKind, Watch, WatchError, WatchEvent, WatchItem};
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use crate::proto::mvccpb::{Event, event::EventType};

/// Capacity of a watch's queue. When it is full, the stream is not read.
const QUEUE_ITEMS: usize = 1024;
/// The watch id in the response to a progress request, which concerns all watches of the stream.
const ALL_WATCHES: i64 = -1;

type Item = Result<WatchItem, WatchError>;
type Reply = oneshot::Sender<Result<EndpointWatch, WatchError>>;

/// The open watch streams of one client, by stream key.
#[derive(Debug, Default)]
pub(super) struct WatchStreams {
    by_key: Mutex<HashMap<String, mpsc::UnboundedSender<Command>>>,
}

/// A watch that the server has not confirmed yet. The confirmed watch is sent through `reply`. If
/// the receiver of `reply` is gone, the watch is dropped and thereby cancelled.
#[derive(Debug)]
struct PendingWatch {
    reply: Reply,
    commands: mpsc::UnboundedSender<Command>,
}

#[derive(Debug)]
enum Command {
    Create(WatchCreateRequest, PendingWatch),
    Cancel(i64),
    Progress,
}

impl WatchStreams {
    /// Creates a watch on the stream of `key`, and opens the stream if there is none. Returns once
    /// the server has confirmed the watch.
    pub(super) async fn watch(
        &self,
        client: &Client,
        key: &str,
        request: WatchCreateRequest,
    ) -> Result<Box<dyn Watch>, WatchError> {
        let (reply, created) = oneshot::channel();
        self.create(client, key, request, reply);
        let watch = created
            .await
            .unwrap_or_else(|_| Err(ended_by(&Status::unavailable("watch stream ended"))))?;
        Ok(Box::new(watch))
    }

    /// Sends a progress request on the stream of `key`. Does nothing if there is no such stream.
    pub(super) fn request_progress(&self, key: &str) {
        if let Some(commands) = self.by_key.lock().get(key) {
            // A stream that has just ended has no watches that could wait for progress.
            commands.send(Command::Progress).ok();
        }
    }

    /// Sends a creation request to the stream of `key`; starts the stream if there is none.
    fn create(&self, client: &Client, key: &str, request: WatchCreateRequest, reply: Reply) {
        let creation = |request, reply, commands: &mpsc::UnboundedSender<Command>| {
            let commands = commands.clone();
            Command::Create(request, PendingWatch { reply, commands })
        };
        let mut by_key = self.by_key.lock();
        let mut refused = (request, reply);
        if let Some(commands) = by_key.get(key) {
            match commands.send(creation(refused.0, refused.1, commands)) {
                Err(mpsc::error::SendError(Command::Create(request, creation))) => {
                    refused = (request, creation.reply);
                }
                _ => return,
            }
        }
        by_key.retain(|_, commands| !commands.is_closed());
        let (commands, receiver) = mpsc::unbounded_channel();
        let first = creation(refused.0, refused.1, &commands);
        by_key.insert(key.to_owned(), commands);
        tokio::spawn(StreamTask::run(client.clone(), first, receiver));
    }
}

/// A watch on an endpoint; dropping it cancels it at the server.
#[derive(Debug)]
struct EndpointWatch {
    watch_id: i64,
    items: mpsc::Receiver<Item>,
    commands: mpsc::UnboundedSender<Command>,
}

#[async_trait]
impl Watch for EndpointWatch {
    async fn next(&mut self) -> Option<Item> {
        self.items.recv().await
    }
}

impl Drop for EndpointWatch {
    fn drop(&mut self) {
        // Fails only if the stream has ended, which has also ended the watch.
        self.commands.send(Command::Cancel(self.watch_id)).ok();
    }
}

/// The stream task's state of one watch.
#[derive(Debug)]
struct Watcher {
    items: mpsc::Sender<Item>,
    /// Events of a response whose last fragment has not arrived.
    fragments: Vec<Event>,
}

/// The state of the task that serves one stream.
struct StreamTask {
    requests: mpsc::UnboundedSender<WatchRequest>,
    watchers: HashMap<i64, Watcher>,
    /// Unconfirmed watches in the order of their requests. The server confirms them in the same
    /// order.
    pending: VecDeque<PendingWatch>,
    /// Items of the last response that wait for room in a queue.
    undelivered: VecDeque<(mpsc::Sender<Item>, Item)>,
}

impl StreamTask {
    async fn run(client: Client, first: Command, mut commands: mpsc::UnboundedReceiver<Command>) {
        let (requests, outgoing) = mpsc::unbounded_channel();
        let mut stream = Self {
            requests,
            watchers: HashMap::new(),
            pending: VecDeque::new(),
            undelivered: VecDeque::new(),
        };
        // Queued before the stream opens, because some servers send headers only after a first
        // message.
        stream.on_command(first);
        let outgoing = UnboundedReceiverStream::new(outgoing);
        let status = match client.watch().watch(outgoing).await {
            Ok(response) => stream.serve(response.into_inner(), &mut commands).await,
            Err(status) => Some(status),
        };
        commands.close();
        // The item that ended the last watch may not have been delivered yet.
        stream.deliver().await;
        if let Some(status) = status {
            stream.fail(&status, &mut commands).await;
        }
    }

    /// Serves the stream until it ends (returns its status) or has no watches left (returns
    /// `None`).
    async fn serve(
        &mut self,
        mut responses: Streaming<WatchResponse>,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> Option<Status> {
        loop {
            let waiting = self.undelivered.front().map(|(items, _)| items.clone());
            let idle = waiting.is_none();
            tokio::select! {
                room = reserve(waiting), if !idle => {
                    // If `room` is `None`, the watch has been dropped, and its item is discarded.
                    if let (Some((_, item)), Some(room)) = (self.undelivered.pop_front(), room) {
                        room.send(item);
                    }
                }
                response = responses.message(), if idle => match response {
                    Ok(Some(response)) => self.on_response(response),
                    Ok(None) => return Some(Status::unavailable("the server ended the watch stream")),
                    Err(status) => return Some(status),
                },
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return None,
                },
            }
            if self.watchers.is_empty() && self.pending.is_empty() {
                // Later creations find the channel closed and open a new stream. Commands that have
                // already been sent are still processed.
                commands.close();
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Create(request, creation) => {
                self.pending.push_back(creation);
                self.request(RequestUnion::CreateRequest(request));
            }
            Command::Cancel(watch_id) => {
                self.watchers.remove(&watch_id);
                self.cancel(watch_id);
            }
            Command::Progress => {
                self.request(RequestUnion::ProgressRequest(WatchProgressRequest {}));
            }
        }
    }

    fn on_response(&mut self, response: WatchResponse) {
        if response.created {
            return self.on_created(response);
        }
        if response.canceled {
            return self.on_canceled(&response);
        }
        let revision = response.header.map_or(0, |header| header.revision);
        if response.watch_id == ALL_WATCHES {
            let watchers = self.watchers.values();
            let progress =
                watchers.map(|w| (w.items.clone(), Ok(WatchItem::Progress { revision })));
            self.undelivered.extend(progress);
            return;
        }
        let Some(watcher) = self.watchers.get_mut(&response.watch_id) else {
            return;
        };
        watcher.fragments.extend(response.events);
        if response.fragment {
            return;
        }
        let events = std::mem::take(&mut watcher.fragments);
        let queue = watcher.items.clone();
        if events.is_empty() {
            let progress = Ok(WatchItem::Progress { revision });
            return self.undelivered.push_back((queue, progress));
        }
        let items = by_revision(events).map(|item| (queue.clone(), item));
        self.undelivered.extend(items);
    }

    fn on_created(&mut self, response: WatchResponse) {
        let Some(PendingWatch { reply, commands }) = self.pending.pop_front() else {
            return;
        };
        // If the caller has stopped waiting, the error is discarded, and a created watch cancels
        // itself when it is dropped.
        if response.canceled {
            reply.send(Err(cancel_error(&response))).ok();
            return;
        }
        let watch_id = response.watch_id;
        let (sender, items) = mpsc::channel(QUEUE_ITEMS);
        let watcher = Watcher {
            items: sender,
            fragments: Vec::new(),
        };
        self.watchers.insert(watch_id, watcher);
        let watch = EndpointWatch {
            watch_id,
            items,
            commands,
        };
        reply.send(Ok(watch)).ok();
    }

    fn on_canceled(&mut self, response: &WatchResponse) {
        if let Some(watcher) = self.watchers.remove(&response.watch_id) {
            let error = cancel_error(response);
            self.undelivered.push_back((watcher.items, Err(error)));
            // After cancelling a watch because of compaction, etcd keeps its id and withholds
            // manual progress from the whole stream until the client cancels the watch, too.
            self.cancel(response.watch_id);
        }
    }

    fn cancel(&self, watch_id: i64) {
        self.request(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }));
    }

    fn request(&self, union: RequestUnion) {
        // Fails only if the call has ended, which `serve` detects itself.
        self.requests
            .send(WatchRequest {
                request_union: Some(union),
            })
            .ok();
    }

    /// Delivers the received items; discards those of dropped watches.
    async fn deliver(&mut self) {
        for (items, item) in self.undelivered.drain(..) {
            items.send(item).await.ok();
        }
    }

    /// Ends all watches and pending creations with the stream's status.
    async fn fail(mut self, status: &Status, commands: &mut mpsc::UnboundedReceiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            self.on_command(command);
        }
        for creation in self.pending.drain(..) {
            creation.reply.send(Err(ended_by(status))).ok();
        }
        let ends = self.watchers.into_values().map(|watcher| async move {
            watcher.items.send(Err(ended_by(status))).await.ok();
        });
        join_all(ends).await;
    }
}

/// Waits for room in the queue of a watch; returns `None` if the watch was dropped.
async fn reserve(items: Option<mpsc::Sender<Item>>) -> Option<mpsc::OwnedPermit<Item>> {
    items?.reserve_owned().await.ok()
}

/// Groups the events of a response by revision. etcd never splits a revision across responses.
/// After a malformed event, the last item is an error.
fn by_revision(events: Vec<Event>) -> impl Iterator<Item = Item> {
    let mut broken = None;
    let readable = events
        .into_iter()
        .map_while(|event| read(event).map_err(|error| broken = Some(error)).ok());
    let revisions = WatchItem::by_revision(readable);
    let broken = broken.map(|error| Err(error.into()));
    revisions.into_iter().map(Ok).chain(broken)
}

fn read(event: Event) -> Result<WatchEvent, Error> {
    let kind = match event.r#type() {
        EventType::Put => EventKind::Put,
        EventType::Delete => EventKind::Delete,
    };
    let kv = event.kv;
    let kv = kv.ok_or_else(|| Error::Protocol("watch event without a key".into()))?;
    let prev_kv = event.prev_kv;
    Ok(WatchEvent { kind, kv, prev_kv })
}

fn cancel_error(response: &WatchResponse) -> WatchError {
    if response.compact_revision != 0 {
        return WatchError::Compacted {
            compact_revision: response.compact_revision,
        };
    }
    let reason = match response.cancel_reason.as_str() {
        "" => "no reason given",
        reason => reason,
    };
    WatchError::Canceled(reason.to_owned())
}

fn ended_by(status: &Status) -> WatchError {
    let status = match status.code() {
        // The owner must list again after an orderly end of the stream, too.
        Code::Ok => Status::unavailable("the server ended the watch stream"),
        _ => status.clone(),
    };
    WatchError::Transport(status.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::mvccpb::KeyValue;

    fn put(key: &'static str, mod_revision: i64) -> Event {
        Event {
            r#type: EventType::Put.into(),
            kv: Some(KeyValue {
                key: key.into(),
                mod_revision,
                ..Default::default()
            }),
            prev_kv: None,
        }
    }

    /// A caller may be cancelled between the server's confirmation and the caller's next poll. The
    /// watch must not remain on the server in that case.
    #[test]
    fn a_watch_whose_creator_was_cancelled_is_cancelled() {
        for gone_before in [true, false] {
            let (requests, _sent) = mpsc::unbounded_channel();
            let (commands, mut received) = mpsc::unbounded_channel();
            let (reply, created) = oneshot::channel();
            let mut stream = StreamTask {
                requests,
                watchers: HashMap::new(),
                pending: VecDeque::from([PendingWatch { reply, commands }]),
                undelivered: VecDeque::new(),
            };
            let mut created = Some(created);
            if gone_before {
                created = None;
            }
            stream.on_created(WatchResponse {
                watch_id: 7,
                created: true,
                ..Default::default()
            });
            drop(created);
            match received.try_recv() {
                Ok(Command::Cancel(7)) => {}
                other => panic!("no cancel (gone before: {gone_before}): {other:?}"),
            }
        }
    }

    #[test]
    fn events_are_joined_by_revision() {
        let revisions: Vec<_> = by_revision(vec![put("a", 5), put("b", 5), put("a", 6)])
            .map(|item| match item {
                Ok(WatchItem::Revision { revision, events }) => (revision, events.len()),
                other => panic!("expected whole revisions, got {other:?}"),
            })
            .collect();
        assert_eq!(revisions, [(5, 2), (6, 1)]);
    }

    #[test]
    fn an_event_without_a_key_ends_in_an_error() {
        let keyless = Event::default();
        let items = by_revision(vec![put("a", 5), keyless]);
        assert!(matches!(
            items.last(),
            Some(Err(WatchError::Transport(Error::Protocol(_))))
        ));
    }
}
