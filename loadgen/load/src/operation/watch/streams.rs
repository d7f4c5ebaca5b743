//! Watchers on streams: one connection and one stream for each share of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

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
    responses: Streaming<WatchResponse>,
    /// What is known of each of its watchers, by watch id.
    pub(crate) watchers: HashMap<i64, T>,
    _requests: mpsc::UnboundedSender<WatchRequest>,
}

impl Opening {
    /// Creates all of them and waits until the server has confirmed each.
    ///
    /// # Errors
    /// When a connection fails, or the server refuses a watcher.
    pub(crate) async fn open<T: Default>(&self) -> Result<Vec<WatchStream<T>>, EtcdError> {
        let mut streams = Vec::new();
        for number in 0..self.connections {
            let watchers = (number..self.count).step_by(self.connections as usize);
            streams.push(self.stream(watchers).await?);
        }
        Ok(streams)
    }

    /// One stream with its watchers, confirmed.
    async fn stream<T: Default>(
        &self,
        watchers: impl Iterator<Item = u32>,
    ) -> Result<WatchStream<T>, EtcdError> {
        let client = Client::connect(self.config.clone()).await?;
        let (requests, receiver) = mpsc::unbounded_channel();
        let mut asked = 0;
        for watcher in watchers {
            asked += 1;
            // The receiver is here.
            requests.send(self.request(watcher)).ok();
        }
        let requests_sent = UnboundedReceiverStream::new(receiver);
        let responses = client.watch().watch(requests_sent).await?.into_inner();
        let mut stream = WatchStream {
            responses,
            watchers: HashMap::with_capacity(asked),
            _requests: requests,
        };
        while stream.watchers.len() < asked {
            let response = stream.next().await?;
            if !response.created {
                continue;
            }
            match stream.watchers.entry(response.watch_id) {
                Entry::Vacant(fresh) => fresh.insert(T::default()),
                Entry::Occupied(taken) => {
                    let id = taken.key();
                    let text = format!("two watchers of a stream have the id {id}");
                    return Err(EtcdError::Protocol(text));
                }
            };
        }
        Ok(stream)
    }

    fn request(&self, watcher: u32) -> WatchRequest {
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
                ..WatchCreateRequest::default()
            })),
        }
    }
}

impl<T> WatchStream<T> {
    /// The next response.
    ///
    /// # Errors
    /// When the stream ends, or a watcher is cancelled.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, EtcdError> {
        let response = self.responses.message().await?;
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
