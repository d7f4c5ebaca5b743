//! Clients that list in rounds: all at once, and the next round when the last one has its answer.
//!
//! Each client is a thread with a runtime of its own: its connection, its parser and its clock
//! share one core's cache, and no other client's work delays it. Rounds give every list the same
//! company, so memory peaks can be told apart by repeat.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use measure::heap;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use workloads::Fingerprint;

use crate::clients::thread::{self, ThreadError};
use crate::endpoint::TargetEndpoint;
use crate::operation::list::attempts::{self, Restarts, Tries};
use crate::operation::list::{ClientCost, ListCase, ListClient, ListError};
use crate::verify::{Check, Expected, Found, InvalidResponse, Listed};

/// A list that takes longer has failed.
const LIST_WITHIN: Duration = Duration::from_secs(600);

/// What a client does in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A whole list, every object checked.
    List,
    /// A whole list, unchecked.
    ListUnchecked,
    /// A list that is cancelled after its first object.
    FirstObject,
    /// Asks which revision the server is at.
    Revision,
    /// Lists from now on are of exactly this revision.
    Pin(i64),
    /// The latest list is checked, where that is no part of [`Job::List`].
    Check,
}

/// How one client's list ended.
#[derive(Debug)]
pub struct Done {
    /// From the call to its end (to the first object, for [`Job::FirstObject`]); of a list that was
    /// begun again, from then.
    pub latency: Duration,
    /// From the call to the first object; `None` if not recorded, or without an object.
    pub first_object: Option<Duration>,
    /// CPU time of the client's thread in that time.
    pub cpu: Duration,
    /// Most bytes that its thread held at a time, of those that it did not hold before; `None`
    /// where that is not counted. In the tries before, too.
    pub memory: Option<u64>,
    /// Tries before it that compaction cut off.
    pub restarts: Restarts,
    /// What it cost the program that did it, where that is not this one.
    pub program: Option<ClientCost>,
    /// What the list held, if there was one and it was checked.
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
            restarts: Restarts::default(),
            program: None,
            result: Err(error),
        }
    }

    fn lost(client: usize) -> Self {
        Self::failed(ThreadError::ended(&thread_of(client)).into())
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
    /// What the latest list held, where its right contents are not known: at one revision there is
    /// one answer.
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

    /// Returns the revision of the latest list, where nothing else is known of what one should
    /// hold.
    fn latest_revision(&self) -> Option<i64> {
        let latest = self.latest.lock();
        latest.as_ref().map(|(revision, _)| *revision)
    }

    /// Whether a list agrees with the one before of the same revision, and is not older than one
    /// that was there before it began, where nothing else is known about it.
    fn agree(
        &self,
        listed: &Listed,
        found: &Found,
        at_least: Option<i64>,
    ) -> Result<(), InvalidResponse> {
        if self.expected.is_some() {
            return Ok(());
        }
        let revision = listed.revision;
        if let Some(at_least) = at_least.filter(|&at_least| revision < at_least) {
            let found = revision;
            return Err(InvalidResponse::Stale { found, at_least });
        }
        let mut latest = self.latest.lock();
        match &*latest {
            Some((same, before)) if *same == revision && before != found => {
                let what = found.difference(before);
                return Err(InvalidResponse::Contradiction { revision, what });
            }
            // Lists that overlap may end in another order than they were read in.
            Some((newer, _)) if *newer > revision => return Ok(()),
            _ => {}
        }
        *latest = Some((revision, found.clone()));
        Ok(())
    }
}

/// Connected clients of one case. Dropped, they cancel what they are doing.
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
        case: &ListCase,
        endpoint: &TargetEndpoint,
        verifier: Verifier,
    ) -> Result<Self, ListError> {
        let clients = (0..n).map(|_| (case.clone(), verifier.clone()));
        Self::connect_each(clients, endpoint).await
    }

    /// Connects clients that each list something of their own.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_each(
        clients: impl IntoIterator<Item = (ListCase, Verifier)>,
        endpoint: &TargetEndpoint,
    ) -> Result<Self, ListError> {
        let mut jobs = Vec::new();
        for (number, (case, verifier)) in clients.into_iter().enumerate() {
            let (sender, receiver) = mpsc::unbounded_channel();
            let endpoint = endpoint.for_client(number);
            let connect = async move || {
                let list_client = timeout(LIST_WITHIN, case.connect(&endpoint)).await;
                list_client.unwrap_or(Err(ListError::Slow(LIST_WITHIN)))
            };
            let work = async move |list_client| client(list_client, &verifier, receiver).await;
            thread::connected(&thread_of(number), ListError::Thread, connect, work).await?;
            jobs.push(sender);
        }
        Ok(Self { jobs })
    }

    /// Returns how many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.jobs.len()
    }

    /// One client does `job`, and the others nothing.
    pub async fn ask(&self, client: usize, job: Job) -> Done {
        let (done, answer) = oneshot::channel();
        if let Some(jobs) = self.jobs.get(client) {
            jobs.send((job, done)).ok();
        }
        answer.await.unwrap_or_else(|_| Done::lost(client))
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
        for (client, answer) in pending.into_iter().enumerate() {
            all.push(answer.await.unwrap_or_else(|_| Done::lost(client)));
        }
        all
    }
}

/// Returns the name of a client's thread.
fn thread_of(client: usize) -> String {
    format!("client-{client}")
}

type Jobs = mpsc::UnboundedReceiver<(Job, oneshot::Sender<Done>)>;

/// What a client's thread does once it is connected.
async fn client(mut list_client: Box<dyn ListClient>, verifier: &Verifier, mut jobs: Jobs) {
    while let Some((job, mut done)) = jobs.recv().await {
        tokio::select! {
            outcome = run(list_client.as_mut(), job, verifier) => {
                done.send(outcome).ok();
            }
            // Whoever asked has gone: dropping the list resets its stream.
            () = done.closed() => {}
        }
    }
}

async fn run(list_client: &mut dyn ListClient, job: Job, verifier: &Verifier) -> Done {
    let ready = timeout(LIST_WITHIN, list_client.before()).await;
    if let Err(error) = ready.unwrap_or(Err(ListError::Slow(LIST_WITHIN))) {
        return Done::failed(error);
    }
    heap::begin();
    let mut first_object = None;
    let mut tries = Tries::begin();
    let work = attempts::until_whole(
        list_client,
        &mut tries,
        async |list_client, begun| match job {
            Job::List if list_client.is_idle() => Ok(None),
            Job::List => {
                first_object = None;
                let mut check = Check::new(&verifier.root);
                let mut on_first = || first_object = Some(begun.elapsed());
                let at_least = verifier
                    .latest_revision()
                    .filter(|_| list_client.is_monotonic());
                let listed = list_client.list(&mut check, &mut on_first).await?;
                let found = if list_client.shows_objects() {
                    let found = check.finish(&listed, verifier.of(list_client.node()).as_ref())?;
                    verifier.agree(&listed, &found, at_least)?;
                    Some(found)
                } else {
                    None
                };
                Ok(Some((listed, found)))
            }
            Job::ListUnchecked => list_client.list_unchecked().await.map(|()| None),
            Job::FirstObject => list_client.first_object().await.map(|()| None),
            Job::Revision => {
                let revision = list_client.revision().await?;
                let listed = Listed {
                    revision,
                    ..Listed::default()
                };
                Ok(Some((listed, None)))
            }
            Job::Pin(revision) => {
                list_client.pin(revision);
                Ok(None)
            }
            Job::Check => {
                let mut check = Check::new(&verifier.root);
                let at_least = verifier.latest_revision();
                let listed = list_client.show_latest(&mut check).await?;
                let found = check.finish(&listed, verifier.of(None).as_ref())?;
                verifier.agree(&listed, &found, at_least)?;
                Ok(Some((listed, Some(found))))
            }
        },
    );
    let result = timeout(LIST_WITHIN, work).await;
    let result = result.unwrap_or(Err(ListError::Slow(LIST_WITHIN)));
    let elapsed = tries.elapsed();
    let program = list_client.cost();
    Done {
        latency: program.as_ref().map_or(elapsed, |cost| cost.latency),
        first_object,
        cpu: tries.cpu(),
        memory: heap::most(),
        restarts: tries.restarts(),
        program,
        result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_overlap_do_not_make_the_latest_revision_go_back() {
        let verifier = Verifier {
            root: "/r/".to_owned(),
            expected: None,
            by_node: HashMap::new(),
            latest: Arc::default(),
        };
        let agree = |revision, revisions, at_least| {
            let listed = Listed {
                revision,
                ..Listed::default()
            };
            let found = Found {
                revisions,
                ..Found::default()
            };
            verifier.agree(&listed, &found, at_least)
        };
        agree(9, 90, None).expect("the first");
        agree(8, 80, None).expect("it began before the other had ended");
        assert_eq!(verifier.latest_revision(), Some(9));
        let other = agree(9, 91, None);
        assert!(matches!(
            other,
            Err(InvalidResponse::Contradiction { revision: 9, .. })
        ));
        let stale = agree(8, 80, verifier.latest_revision());
        assert!(matches!(
            stale,
            Err(InvalidResponse::Stale {
                found: 8,
                at_least: 9
            })
        ));
    }
}
