//! Watchers on streams. Each connection has one stream with a share of the watchers. The
//! connections are distributed over the endpoints round-robin.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::{Error as EtcdError, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{
    RangeRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming};

/// How long a member may take to report the store's revision.
const REVISION_TIMEOUT: Duration = Duration::from_secs(10);

/// The keys that each watcher watches.
#[derive(Debug, Clone)]
pub enum Watched {
    /// All watch the same prefix. An event below it reaches every one of them.
    Together(String),
    /// Each watches a key or a prefix of its own below this one.
    Apart(String),
}

/// Settings of the watchers to be created.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) config: ClientConfig,
    pub(crate) watched: Watched,
    /// The number of watchers.
    pub(crate) count: u32,
    /// The number of connections, each with one stream.
    pub(crate) connections: u32,
}

/// The error that ends a stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The connection broke, or the server ended the stream. Watchers may resume over another.
    #[error(transparent)]
    Broken(EtcdError),
    /// The events from which a watcher would resume are gone: the store is compacted up to this
    /// revision.
    #[error("history is compacted up to revision {0}")]
    Compacted(i64),
    /// Any other error, which another stream would not solve.
    #[error(transparent)]
    Wrong(EtcdError),
}

impl From<EtcdError> for StreamError {
    fn from(error: EtcdError) -> Self {
        let of_a_connection = |code| {
            matches!(
                code,
                Code::Unavailable | Code::Internal | Code::Unknown | Code::Cancelled
            )
        };
        let is_broken = match &error {
            EtcdError::Unreachable { .. } => true,
            EtcdError::Refused(refusal) => refusal.code() == Code::Unavailable,
            EtcdError::Status { code, .. } => of_a_connection(*code),
            _ => false,
        };
        match is_broken {
            true => Self::Broken(error),
            false => Self::Wrong(error),
        }
    }
}

impl From<StreamError> for EtcdError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Broken(error) | StreamError::Wrong(error) => error,
            StreamError::Compacted(_) => Self::Refused(Refusal::Compacted),
        }
    }
}

/// The responses of a call, and the sender that keeps it open.
type Call = (
    Streaming<WatchResponse>,
    mpsc::UnboundedSender<WatchRequest>,
);

/// An open stream. It ends when the sender of its requests is dropped.
pub(crate) struct WatchStream<T> {
    /// The call; `None` once it is closed.
    open: Option<Call>,
    /// The caller's data for each of its watchers, by watch id.
    pub(crate) watchers: HashMap<i64, T>,
    /// The store's revision when the first of them was created.
    pub(crate) created_at: i64,
    /// The number of its endpoint. It is higher than that of the first endpoint if that one failed.
    pub(crate) endpoint: usize,
    /// Events that arrived while watchers were being created.
    early: VecDeque<WatchResponse>,
}

/// A stream whose watchers the server has confirmed.
pub(crate) struct Confirmed {
    stream: WatchStream<()>,
    /// The watch ids, in the order in which the watchers were requested.
    ids: Vec<i64>,
}

impl Confirmed {
    /// Returns the stream with the caller's data for each watcher, given in the order in which the
    /// watchers were requested.
    pub(crate) fn with<T>(self, known: impl IntoIterator<Item = T>) -> WatchStream<T> {
        WatchStream {
            watchers: self.ids.into_iter().zip(known).collect(),
            open: self.stream.open,
            created_at: self.stream.created_at,
            endpoint: self.stream.endpoint,
            early: self.stream.early,
        }
    }
}

impl Opening {
    /// Creates all watchers and waits until the server has confirmed each. `make` returns the
    /// initial data of a watcher from its number and the revision after which it watches.
    ///
    /// # Errors
    /// An error when no endpoint can be reached, or the server refuses a watcher.
    pub(crate) async fn open<T>(
        &self,
        make: impl Fn(u32, i64) -> T,
    ) -> Result<Vec<WatchStream<T>>, EtcdError> {
        let mut streams = Vec::new();
        for number in 0..self.connections {
            let watchers = (number..self.count).step_by(self.connections as usize);
            // Revision 0: from now on.
            let starts: Vec<_> = watchers.map(|watcher| (watcher, 0)).collect();
            let opened = self.open_anywhere(number as usize, &starts).await?;
            let behind = opened.stream.created_at;
            streams.push(opened.with(starts.iter().map(|(watcher, _)| make(*watcher, behind))));
        }
        Ok(streams)
    }

    /// Opens a stream at endpoint number `first`, or at the next one that can be reached.
    async fn open_anywhere(
        &self,
        first: usize,
        starts: &[(u32, i64)],
    ) -> Result<Confirmed, StreamError> {
        let others = first + 1..first + self.config.endpoints.len().max(1);
        let mut opened = self.open_at(first, starts).await;
        for endpoint in others {
            if !matches!(opened, Err(StreamError::Broken(_))) {
                break;
            }
            opened = self.open_at(endpoint, starts).await;
        }
        opened
    }

    /// Creates watchers on one stream at this endpoint, and waits until the server has confirmed
    /// each. `starts` has the number and the start revision of each watcher.
    ///
    /// # Errors
    /// [`StreamError`] when the connection fails, or the server refuses a watcher, for example
    /// because its start revision is compacted.
    pub(crate) async fn open_at(
        &self,
        endpoint: usize,
        starts: &[(u32, i64)],
    ) -> Result<Confirmed, StreamError> {
        let client = Client::connect(self.config.only(endpoint)).await?;
        let (requests, receiver) = mpsc::unbounded_channel();
        for (watcher, from) in starts {
            // The send cannot fail, because the receiver exists. The server creates watchers in
            // this order.
            requests.send(self.request(*watcher, *from)).ok();
        }
        let requests_sent = UnboundedReceiverStream::new(receiver);
        let responses = client.watch().watch(requests_sent).await;
        let responses = responses.map_err(EtcdError::from)?.into_inner();
        let mut stream = WatchStream {
            open: Some((responses, requests)),
            watchers: HashMap::new(),
            created_at: 0,
            endpoint,
            early: VecDeque::new(),
        };
        let (mut ids, mut taken) = (Vec::with_capacity(starts.len()), HashSet::new());
        while ids.len() < starts.len() {
            let response = stream.next_sent().await?;
            if !response.created {
                // A created watcher may have events before the next one is created.
                stream.early.push_back(response);
                continue;
            }
            if ids.is_empty() {
                stream.created_at = response.header.as_ref().map_or(0, |header| header.revision);
            }
            let id = response.watch_id;
            if !taken.insert(id) {
                let text = format!("two watchers of a stream have the id {id}");
                return Err(EtcdError::Protocol(text).into());
            }
            ids.push(id);
        }
        Ok(Confirmed { stream, ids })
    }

    /// Returns the store's revision from this endpoint, which is the revision that a list there
    /// would have.
    ///
    /// # Errors
    /// [`StreamError`] when the connection fails, or the server refuses the request.
    pub(crate) async fn current_revision(&self, endpoint: usize) -> Result<i64, StreamError> {
        let (Watched::Together(key) | Watched::Apart(key)) = &self.watched;
        let count = RangeRequest {
            range_end: prefix_end(key.as_bytes()).into(),
            key: key.clone().into(),
            count_only: true,
            ..RangeRequest::default()
        };
        let counted = async {
            let client = Client::connect(self.config.only(endpoint)).await?;
            let counted = client.kv().range(count).await.map_err(EtcdError::from)?;
            let header = counted.into_inner().header;
            header.ok_or_else(|| EtcdError::Protocol("a response without a header".to_owned()))
        };
        let late = |_| EtcdError::Status {
            code: Code::Unavailable,
            message: format!("no response within {} s", REVISION_TIMEOUT.as_secs()),
        };
        let header = timeout(REVISION_TIMEOUT, counted).await.map_err(late)??;
        Ok(header.revision)
    }

    fn request(&self, watcher: u32, from: i64) -> WatchRequest {
        let (key, range_end) = match &self.watched {
            Watched::Together(prefix) => {
                (prefix.clone().into_bytes(), prefix_end(prefix.as_bytes()))
            }
            // Keys and prefixes alternate: a server may index them separately.
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
    /// [`StreamError`] when the stream ends, or a watcher is cancelled.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, StreamError> {
        match self.early.pop_front() {
            Some(response) => Ok(response),
            None => self.next_sent().await,
        }
    }

    /// Closes the stream and its connection. Keeps the data of its watchers.
    pub(crate) fn close(&mut self) {
        self.open = None;
        self.early.clear();
    }

    async fn next_sent(&mut self) -> Result<WatchResponse, StreamError> {
        let response = match &mut self.open {
            Some((responses, _)) => responses.message().await.map_err(EtcdError::from)?,
            None => None,
        };
        let ended = || EtcdError::Status {
            code: Code::Unavailable,
            message: "the server ended a watch stream".to_owned(),
        };
        let response = response.ok_or_else(ended)?;
        if response.canceled && response.compact_revision > 0 {
            return Err(StreamError::Compacted(response.compact_revision));
        }
        if response.canceled {
            let reason = &response.cancel_reason;
            let text = format!("watcher {} was cancelled: {reason}", response.watch_id);
            return Err(EtcdError::Protocol(text).into());
        }
        Ok(response)
    }
}
