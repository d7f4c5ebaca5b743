//! Many watchers on few streams ([`streams`]), with checks that numbered writes reach them.
//!
//! Numbered writes are counted per watcher: each must receive every write once, in order. When one
//! write has caused as many events as there are watchers, every watcher has received it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use futures::future::try_join_all;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use self::streams::{Opening, WatchStream};
use crate::clients::thread::{self, ThreadError};
use crate::record::LatencyHistogram;

pub mod streams;

pub use streams::Watched;

/// The name of the thread with all streams.
const THREAD: &str = "watchers";
/// How long the creation of all watchers together may take.
const CREATE_TIMEOUT: Duration = Duration::from_secs(120);
/// The length of the number at the beginning of a value that watchers are to receive, in bytes.
const NUMBER_BYTES: usize = 8;

/// The send times of numbered writes, and the count of their events.
#[derive(Debug)]
pub struct Deliveries {
    begun: Instant,
    sent_ns: Vec<AtomicU64>,
    /// The number of warm-up writes, which are not timed.
    first_counted: usize,
    received: AtomicU64,
    /// The error that ended the watchers, if any.
    broken: OnceLock<String>,
    progress: Notify,
}

impl Deliveries {
    /// Returns a record for so many writes, of which the first are warm-up: awaited, but not timed.
    #[must_use]
    pub fn new(warm_up: u32, counted: u32) -> Arc<Self> {
        let writes = warm_up + counted;
        Arc::new(Self {
            begun: Instant::now(),
            sent_ns: (0..writes).map(|_| AtomicU64::new(0)).collect(),
            first_counted: warm_up as usize,
            received: AtomicU64::new(0),
            broken: OnceLock::new(),
            progress: Notify::new(),
        })
    }

    /// Records that write `number` is sent now. Returns the value that carries its number.
    #[must_use]
    pub fn send(&self, number: u32, value_bytes: usize) -> Bytes {
        let mut value = vec![0; value_bytes.max(NUMBER_BYTES)];
        value[..NUMBER_BYTES].copy_from_slice(&u64::from(number).to_be_bytes());
        let now = self.begun.elapsed().as_nanos() as u64;
        self.sent_ns[number as usize].store(now, Ordering::Release);
        value.into()
    }

    /// Waits until `events` events have arrived in all. The caller must bound the time.
    ///
    /// # Errors
    /// An error when a stream has ended, or a watcher received another event than the one that was
    /// due.
    pub async fn reached(&self, events: u64) -> Result<(), EtcdError> {
        loop {
            let progress = self.progress.notified();
            if let Some(reason) = self.broken.get() {
                return Err(EtcdError::Client(reason.clone()));
            }
            if self.received.load(Ordering::Acquire) >= events {
                return Ok(());
            }
            progress.await;
        }
    }

    /// Makes [`Self::reached`] return an error.
    fn break_off(&self, reason: String) {
        // The first reason is the cause of those that follow.
        self.broken.set(reason).ok();
        self.progress.notify_one();
    }

    /// Returns how many events have arrived in all.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// Returns the number of the write whose value an event holds, and the time since it was sent;
    /// `None` if the value is not that of a numbered write.
    fn time_of(&self, value: &[u8], now: Instant) -> Option<(usize, Duration)> {
        let (number, _) = value.split_first_chunk::<NUMBER_BYTES>()?;
        let number = usize::try_from(u64::from_be_bytes(*number)).ok()?;
        let sent_ns = self.sent_ns.get(number)?.load(Ordering::Acquire);
        let sent = Duration::from_nanos(sent_ns);
        let time = now.duration_since(self.begun).saturating_sub(sent);
        Some((number, time))
    }
}

/// Created watchers: a thread with all their streams. The streams are closed when this is dropped.
#[derive(Debug)]
pub struct Watchers {
    end: oneshot::Sender<()>,
    ended: oneshot::Receiver<Result<LatencyHistogram, EtcdError>>,
}

impl Watchers {
    /// Creates `count` watchers over `connections` streams and waits until the server has confirmed
    /// each. Their events are recorded in `deliveries`.
    ///
    /// # Errors
    /// An error when a connection fails, or the server does not confirm all in time.
    pub async fn create(
        config: &ClientConfig,
        watched: &Watched,
        count: u32,
        connections: u32,
        deliveries: &Arc<Deliveries>,
    ) -> Result<Self, EtcdError> {
        let (created, is_created) = oneshot::channel();
        let (end, stop) = oneshot::channel();
        let share = Share {
            watchers: Opening {
                config: config.clone(),
                watched: watched.clone(),
                count,
                connections: connections.min(count).max(1),
            },
            deliveries: Arc::clone(deliveries),
        };
        let cannot_start = |source| {
            let name = THREAD.to_owned();
            EtcdError::from(ThreadError::Start { name, source })
        };
        let body = async move |result: oneshot::Sender<_>| {
            result.send(share.run(created, stop).await).ok();
        };
        let ended = thread::start(THREAD, cannot_start, body)?;
        match timeout(CREATE_TIMEOUT, is_created).await {
            Ok(Ok(())) => Ok(Self { end, ended }),
            // The thread has ended instead of confirming. It reports the reason.
            Ok(Err(_)) => Err(match ended.await {
                Ok(Err(error)) => error,
                _ => ThreadError::ended(THREAD).into(),
            }),
            Err(_) => Err(EtcdError::Timeout(format!(
                "{count} watchers were not created within {} s",
                CREATE_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Closes the streams. Returns the delay of each event after its write.
    ///
    /// # Errors
    /// An error when a stream had ended before.
    pub async fn close(self) -> Result<LatencyHistogram, EtcdError> {
        self.end.send(()).ok();
        let ended = |_| EtcdError::from(ThreadError::ended(THREAD));
        self.ended.await.map_err(ended)?
    }
}

/// The data that the thread needs.
struct Share {
    watchers: Opening,
    deliveries: Arc<Deliveries>,
}

impl Share {
    async fn run(
        self,
        created: oneshot::Sender<()>,
        mut stop: oneshot::Receiver<()>,
    ) -> Result<LatencyHistogram, EtcdError> {
        let streams = tokio::select! {
            streams = self.watchers.open(|_, _| 0_usize) => streams?,
            // The caller has given up.
            _ = &mut stop => return Ok(LatencyHistogram::default()),
        };
        // Sending may fail if the caller has given up. In that case `stop` ends the streams.
        created.send(()).ok();
        let (end, ending) = tokio::sync::watch::channel(());
        let reading = streams
            .into_iter()
            .map(|stream| read(stream, &self.deliveries, ending.clone()));
        let all = try_join_all(reading);
        tokio::pin!(all);
        let outcome = tokio::select! {
            all = &mut all => all,
            _ = &mut stop => {
                drop(end);
                all.await
            }
        };
        let histograms =
            outcome.inspect_err(|error| self.deliveries.break_off(error.to_string()))?;
        let mut sum = LatencyHistogram::default();
        for histogram in &histograms {
            sum.add(histogram);
        }
        Ok(sum)
    }
}

/// Records events until `ending` closes.
async fn read(
    mut stream: WatchStream<usize>,
    deliveries: &Deliveries,
    mut ending: tokio::sync::watch::Receiver<()>,
) -> Result<LatencyHistogram, EtcdError> {
    let mut latency = LatencyHistogram::default();
    loop {
        let response = tokio::select! {
            response = stream.next() => response?,
            _ = ending.changed() => return Ok(latency),
        };
        let now = Instant::now();
        let id = response.watch_id;
        let mut events = 0;
        for event in &response.events {
            let value = event.kv.as_ref().map(|kv| kv.value.as_ref());
            let sent = value.and_then(|value| deliveries.time_of(value, now));
            if let Some((number, time)) = sent {
                let due = stream.watchers.get_mut(&id).ok_or_else(|| {
                    EtcdError::Protocol(format!("an event for watcher {id}, which does not exist"))
                })?;
                if number != *due {
                    return Err(EtcdError::Protocol(format!(
                        "watcher {id} got the event of put {number} where that of put {due} was due"
                    )));
                }
                *due += 1;
                if number >= deliveries.first_counted {
                    latency.record(time);
                }
                events += 1;
            }
        }
        if events > 0 {
            deliveries.received.fetch_add(events, Ordering::AcqRel);
            deliveries.progress.notify_one();
        }
    }
}
