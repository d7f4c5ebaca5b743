//! Watchers on streams: one connection and one stream for each share of them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

/// What each watcher watches.
#[derive(Debug, Clone)]
pub enum Watched {
    /// All watch the same prefix: an event there reaches every one of them.
    Together(String),
    /// Each watches a key or a prefix of its own below this one.
    Apart(String),
}

/// Watchers to be created.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) config: ClientConfig,
    pub(crate) watched: Watched,
    /// How many.
    pub(crate) count: u32,
    /// Over how many connections, with a stream each.
    pub(crate) connections: u32,
}

/// An open stream. It ends when its requests do.
pub(crate) struct WatchStream<T> {
    /// Responses, and what keeps the stream open; `None` once it is closed.
    open: Option<(
        Streaming<WatchResponse>,
        mpsc::UnboundedSender<WatchRequest>,
    )>,
    /// What is known of each of its watchers, by watch id.
    pub(crate) watchers: HashMap<i64, T>,
    /// The store's revision when the first of them was created.
    pub(crate) created_at: i64,
    /// Events that came while watchers were being created.
    early: VecDeque<WatchResponse>,
}

impl Opening {
    /// Creates all of them and waits until the server has confirmed each; `make` is what is known
    /// of one at first, by its number.
    ///
    /// # Errors
    /// When a connection fails, or the server refuses a watcher.
    pub(crate) async fn open<T>(
        &self,
        make: impl Fn(u32) -> T,
    ) -> Result<Vec<WatchStream<T>>, EtcdError> {
        let mut streams = Vec::new();
        for number in 0..self.connections {
            let watchers = (number..self.count).step_by(self.connections as usize);
            // From now on.
            let watchers = watchers.map(|watcher| (watcher, 0, make(watcher)));
            streams.push(self.reopen(watchers).await?);
        }
        Ok(streams)
    }

    /// Creates watchers on one stream, each from a revision on, and waits until the server has
    /// confirmed each.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses a watcher, as where that revision has been
    /// compacted.
    pub(crate) async fn reopen<T>(
        &self,
        watchers: impl IntoIterator<Item = (u32, i64, T)>,
    ) -> Result<WatchStream<T>, EtcdError> {
        let client = Client::connect(self.config.clone()).await?;
        let (requests, receiver) = mpsc::unbounded_channel();
        // In this order the server creates them.
        let mut asked = VecDeque::new();
        for (watcher, from, known) in watchers {
            // The receiver is here.
            requests.send(self.request(watcher, from)).ok();
            asked.push_back(known);
        }
        let requests_sent = UnboundedReceiverStream::new(receiver);
        let responses = client.watch().watch(requests_sent).await?.into_inner();
        let mut stream = WatchStream {
            open: Some((responses, requests)),
            watchers: HashMap::with_capacity(asked.len()),
            created_at: 0,
            early: VecDeque::new(),
        };
        while let Some(known) = asked.pop_front() {
            let response = loop {
                let response = stream.next_sent().await?;
                if response.created {
                    break response;
                }
                // One that is created may have events before the next is.
                stream.early.push_back(response);
            };
            if stream.watchers.is_empty() {
                stream.created_at = response.header.as_ref().map_or(0, |header| header.revision);
            }
            match stream.watchers.entry(response.watch_id) {
                Entry::Vacant(fresh) => fresh.insert(known),
                Entry::Occupied(taken) => {
                    let id = taken.key();
                    let text = format!("two watchers of a stream have the id {id}");
                    return Err(EtcdError::Protocol(text));
                }
            };
        }
        Ok(stream)
    }

    fn request(&self, watcher: u32, from: i64) -> WatchRequest {
        let (key, range_end) = match &self.watched {
            Watched::Together(prefix) => {
                (prefix.clone().into_bytes(), prefix_end(prefix.as_bytes()))
            }
            // Keys and prefixes in turn: a server may index them apart.
            Watched::Apart(prefix) if watcher.is_multiple_of(2) => {
                (format!("{prefix}{watcher}").into_bytes(), Vec::new())
            }
            Watched::Apart(prefix) => {
                let key = format!("{prefix}{watcher}/").into_bytes();
                let end = prefix_end(&key);
                (key, end)
            }
        };
        WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
                key: key.into(),
                range_end: range_end.into(),
                start_revision: from,
                ..WatchCreateRequest::default()
            })),
        }
    }
}

impl<T> WatchStream<T> {
    /// Returns the next response.
    ///
    /// # Errors
    /// When the stream ends, or a watcher is cancelled.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, EtcdError> {
        match self.early.pop_front() {
            Some(response) => Ok(response),
            None => self.next_sent().await,
        }
    }

    /// Ends the stream; its connection goes with it.
    pub(crate) fn close(&mut self) {
        self.open = None;
        self.early.clear();
    }

    async fn next_sent(&mut self) -> Result<WatchResponse, EtcdError> {
        let response = match &mut self.open {
            Some((responses, _)) => responses.message().await?,
            None => None,
        };
        let response = response
            .ok_or_else(|| EtcdError::Protocol("the server ended a watch stream".to_owned()))?;
        if response.canceled {
            let reason = &response.cancel_reason;
            let text = format!("watcher {} was cancelled: {reason}", response.watch_id);
            return Err(EtcdError::Protocol(text));
        }
        Ok(response)
    }
}
