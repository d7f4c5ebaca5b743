//! Clients that list in rounds: all at once, and the next round when the last one has its answer.
//!
//! Each client is a thread with a runtime of its own: its connection, its parser and its clock share one core's cache, and
//! no other client's work delays it. Rounds give every list the same company, so memory peaks can be told apart by repeat.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use workloads::Fingerprint;

use super::thread;
use crate::sample::{heap, thread_cpu};
use crate::target::list::{ListError, Listed, Lister, Reach, Row};
use crate::verify::{Check, Expected, Found, Wrong};

/// A list that takes longer has failed.
const LIST_WITHIN: Duration = Duration::from_secs(600);

/// What a client does in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A whole list, every object checked.
    List,
    /// A whole list, nothing looked at.
    Drain,
    /// A list that is cancelled after its first object.
    FirstObject,
    /// Asks which revision the server is at.
    Revision,
    /// Lists from now on are of exactly this revision.
    Pin(i64),
}

/// How one client's list ended.
#[derive(Debug)]
pub struct Done {
    /// From the call to its end (to the first object, for [`Job::FirstObject`]).
    pub latency: Duration,
    /// From the call to the first object; `None` when nobody looked, or there was none.
    pub first_object: Option<Duration>,
    /// CPU time of the client's thread meanwhile.
    pub cpu: Duration,
    /// Most bytes that its thread held at a time, of those that it did not hold before; `None` where that is not counted.
    pub memory: Option<u64>,
    /// What the list held, where there was one and it was looked at.
    pub result: Result<Option<(Listed, Option<Found>)>, ListError>,
}

impl Done {
    /// Nothing was done.
    fn failed(error: ListError) -> Self {
        Self {
            latency: Duration::ZERO,
            first_object: None,
            cpu: Duration::ZERO,
            memory: None,
            result: Err(error),
        }
    }

    fn lost() -> Self {
        Self::failed(ListError::Http("client thread ended".to_owned()))
    }
}

/// Against what lists are checked.
#[derive(Debug, Clone)]
pub struct Verifier {
    /// What keys are relative to.
    pub root: String,
    /// What was written, where that is known.
    pub expected: Option<Expected>,
    /// What a node's list must hold, where lists ask for one node after the other.
    pub by_node: HashMap<String, Fingerprint>,
    /// What the latest list held, where nobody knows what it should: at one revision there is one answer.
    pub latest: Arc<Mutex<Option<(i64, Found)>>>,
}

impl Verifier {
    /// Against what a list is checked that asked for this node, or for everything.
    fn of(&self, node: Option<&str>) -> Option<Expected> {
        let mut expected = self.expected.clone()?;
        if let Some(node) = node {
            expected.fingerprint = self.by_node.get(node).copied().unwrap_or_default();
        }
        Some(expected)
    }

    /// Whether a list agrees with the one before of the same revision, where nothing else is known about it.
    fn agree(&self, listed: &Listed, found: &Found) -> Result<(), Wrong> {
        if self.expected.is_some() {
            return Ok(());
        }
        let revision = listed.revision;
        let before = self.latest.lock().replace((revision, found.clone()));
        match before {
            Some((same, before)) if same == revision && before != *found => {
                Err(Wrong::Contradiction { revision })
            }
            _ => Ok(()),
        }
    }
}

/// Connected clients of one row. Dropped, they cancel what they are doing.
#[derive(Debug)]
pub struct Clients {
    jobs: Vec<mpsc::UnboundedSender<(Job, oneshot::Sender<Done>)>>,
}

impl Clients {
    /// Connects `n` clients.
    ///
    /// # Errors
    /// The first client's [`ListError`] when it cannot connect.
    pub async fn connect(
        n: u32,
        row: &Row,
        reach: &Reach,
        verifier: Verifier,
    ) -> Result<Self, ListError> {
        let clients = (0..n).map(|_| (row.clone(), verifier.clone()));
        Self::connect_each(clients, reach).await
    }

    /// Connects clients that each list something of their own.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_each(
        clients: impl IntoIterator<Item = (Row, Verifier)>,
        reach: &Reach,
    ) -> Result<Self, ListError> {
        let mut jobs = Vec::new();
        for (number, (row, verifier)) in clients.into_iter().enumerate() {
            let (sender, receiver) = mpsc::unbounded_channel();
            let reach = reach.clone();
            let connect = async move || {
                let lister = timeout(LIST_WITHIN, row.connect(&reach)).await;
                lister.unwrap_or(Err(ListError::Slow(LIST_WITHIN)))
            };
            let work = async move |lister| client(lister, &verifier, receiver).await;
            let name = format!("client-{number}");
            thread::connected(&name, ListError::Http, connect, work).await?;
            jobs.push(sender);
        }
        Ok(Self { jobs })
    }

    /// One client does `job`, and the others nothing.
    pub async fn ask(&self, client: usize, job: Job) -> Done {
        let (done, answer) = oneshot::channel();
        if let Some(client) = self.jobs.get(client) {
            client.send((job, done)).ok();
        }
        answer.await.unwrap_or_else(|_| Done::lost())
    }

    /// One round: every client does `job`, all beginning at once. Answers when all have ended.
    pub async fn round(&self, job: Job) -> Vec<Done> {
        let mut pending = Vec::with_capacity(self.jobs.len());
        for client in &self.jobs {
            let (done, answer) = oneshot::channel();
            // A thread that has ended drops `done`, which is an answer too.
            client.send((job, done)).ok();
            pending.push(answer);
        }
        let mut all = Vec::with_capacity(pending.len());
        for answer in pending {
            all.push(answer.await.unwrap_or_else(|_| Done::lost()));
        }
        all
    }
}

type Jobs = mpsc::UnboundedReceiver<(Job, oneshot::Sender<Done>)>;

/// What a client's thread does once it is connected.
async fn client(mut lister: Box<dyn Lister>, verifier: &Verifier, mut jobs: Jobs) {
    while let Some((job, mut done)) = jobs.recv().await {
        tokio::select! {
            outcome = run(lister.as_mut(), job, verifier) => {
                done.send(outcome).ok();
            }
            // Whoever asked has gone: dropping the list resets its stream.
            () = done.closed() => {}
        }
    }
}

async fn run(lister: &mut dyn Lister, job: Job, verifier: &Verifier) -> Done {
    let ready = timeout(LIST_WITHIN, lister.before()).await;
    if let Err(error) = ready.unwrap_or(Err(ListError::Slow(LIST_WITHIN))) {
        return Done::failed(error);
    }
    let cpu_before = thread_cpu();
    heap::begin();
    let begun = Instant::now();
    let mut first_object = None;
    let work = async {
        match job {
            Job::List if lister.is_idle() => Ok(None),
            Job::List => {
                let mut check = Check::new(&verifier.root);
                let mut on_first = || first_object = Some(begun.elapsed());
                let listed = lister.list(&mut check, &mut on_first).await?;
                let found = if lister.shows_objects() {
                    let found = check.finish(&listed, verifier.of(lister.node()).as_ref())?;
                    verifier.agree(&listed, &found)?;
                    Some(found)
                } else {
                    None
                };
                Ok(Some((listed, found)))
            }
            Job::Drain => lister.drain().await.map(|()| None),
            Job::FirstObject => lister.first_object().await.map(|()| None),
            Job::Revision => {
                let revision = lister.revision().await?;
                let listed = Listed {
                    revision,
                    ..Listed::default()
                };
                Ok(Some((listed, None)))
            }
            Job::Pin(revision) => {
                lister.pin(revision);
                Ok(None)
            }
        }
    };
    let result = timeout(LIST_WITHIN, work).await;
    Done {
        latency: begun.elapsed(),
        first_object,
        cpu: thread_cpu().saturating_sub(cpu_before),
        memory: heap::most(),
        result: result.unwrap_or(Err(ListError::Slow(LIST_WITHIN))),
    }
}
