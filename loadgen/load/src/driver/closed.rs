//! Clients that list in rounds: all clients start at once, and the next round starts when the last
//! of them has its response.
//!
//! Each client is a thread with a runtime of its own: its connection, its parser and its clock
//! share one core's cache, and no other client's work delays it. In every round, all lists run at
//! the same time, so that each memory peak can be attributed to a repeat.

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

/// The time limit of a list. A list that takes longer has failed.
const LIST_WITHIN: Duration = Duration::from_secs(600);

/// The work of a client in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Lists everything and checks every object.
    List,
    /// Lists everything, unchecked.
    ListUnchecked,
    /// Lists, and cancels after the first object.
    FirstObject,
    /// Requests the server's current revision.
    Revision,
    /// Makes the following lists read exactly this revision.
    Pin(i64),
    /// Checks the latest list, for clients where [`Job::List`] does not do that.
    Check,
}

/// The outcome of one client's job.
#[derive(Debug)]
pub struct Done {
    /// The time from the call to its end (to the first object, for [`Job::FirstObject`]). If the
    /// list was restarted, the time since the last restart.
    pub latency: Duration,
    /// The time from the call to the first object; `None` if that is not recorded, or if there was
    /// no object.
    pub first_object: Option<Duration>,
    /// The CPU time of the client's thread in that time.
    pub cpu: Duration,
    /// The peak of the bytes that the client's thread held beyond those that it held before the
    /// job, earlier attempts included; `None` if allocations are not counted.
    pub memory: Option<u64>,
    /// The earlier attempts that compaction interrupted.
    pub restarts: Restarts,
    /// The cost measured by the external program that listed, if one did.
    pub program: Option<ClientCost>,
    /// The contents of the list, if there was one and it was checked.
    pub result: Result<Option<(Listed, Option<Found>)>, ListError>,
}

impl Done {
    /// Returns the outcome of a job that could not be started.
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

/// What lists are checked against.
#[derive(Debug, Clone)]
pub struct Verifier {
    /// The prefix that keys are relative to.
    pub root: String,
    /// What was written, if that is known.
    pub expected: Option<Expected>,
    /// The expected contents by node, for lists that request one node after the other.
    pub by_node: HashMap<String, Fingerprint>,
    /// The contents of the latest list, used if the expected contents are not known: two lists of
    /// the same revision must be equal.
    pub latest: Arc<Mutex<Option<(i64, Found)>>>,
}

impl Verifier {
    /// Returns the expected contents of a list of this node, or of everything.
    fn of(&self, node: Option<&str>) -> Option<Expected> {
        let mut expected = self.expected.clone()?;
        if let Some(node) = node {
            expected.fingerprint = self.by_node.get(node).copied().unwrap_or_default();
        }
        Some(expected)
    }

    /// Returns the revision of the latest list, if lists are compared with each other because the
    /// expected contents are not known.
    fn latest_revision(&self) -> Option<i64> {
        let latest = self.latest.lock();
        latest.as_ref().map(|(revision, _)| *revision)
    }

    /// Compares a list with the latest one of the same revision, and checks that its revision is at
    /// least `at_least`. Does nothing if the expected contents are known.
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
            // Overlapping lists may end in another order than that of their revisions.
            Some((newer, _)) if *newer > revision => return Ok(()),
            _ => {}
        }
        *latest = Some((revision, found.clone()));
        Ok(())
    }
}

/// Connected clients of one case. They cancel what they are doing when this is dropped.
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

    /// Connects clients that each have a case of their own.
    ///
    /// # Errors
    /// See [`Self::connect`].
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

    /// Returns the number of clients.
    #[must_use]
    pub fn count(&self) -> usize {
        self.jobs.len()
    }

    /// Makes one client do `job`, while the others are idle.
    pub async fn ask(&self, client: usize, job: Job) -> Done {
        let (done, answer) = oneshot::channel();
        if let Some(jobs) = self.jobs.get(client) {
            jobs.send((job, done)).ok();
        }
        answer.await.unwrap_or_else(|_| Done::lost(client))
    }

    /// Performs one round: every client starts `job` at once. Returns when all have ended.
    pub async fn round(&self, job: Job) -> Vec<Done> {
        let mut pending = Vec::with_capacity(self.jobs.len());
        for client in &self.jobs {
            let (done, answer) = oneshot::channel();
            // If the thread has ended, `done` is dropped, which ends the wait as well.
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

/// Runs a client's thread once it is connected.
async fn client(mut list_client: Box<dyn ListClient>, verifier: &Verifier, mut jobs: Jobs) {
    while let Some((job, mut done)) = jobs.recv().await {
        tokio::select! {
            outcome = run(list_client.as_mut(), job, verifier) => {
                done.send(outcome).ok();
            }
            // The caller has gone: dropping the list resets its stream.
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
