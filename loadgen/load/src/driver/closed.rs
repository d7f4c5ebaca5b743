//! Clients that list in rounds: all clients start at once, and the next round starts when the last
//! of them has its response.
//!
//! Each client is a thread with a runtime of its own: its connection, its parser and its clock
//! share one core's cache, and no other client's work delays it. In every round, all lists run at
//! the same time, so that each memory peak can be attributed to a repeat.

use std::time::{Duration, Instant};

use measure::heap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::clients::thread::{self, ThreadError};
use crate::endpoint::TargetEndpoint;
use crate::operation::list::attempts::{self, Restarts, Tries};
use crate::operation::list::{ClientCost, ListCase, ListClient, ListError, ObjectTimes};
use crate::verify::{Check, Contents, Listed, Verifier};

/// The time limit of a list. A list that takes longer has failed.
const LIST_TIMEOUT: Duration = Duration::from_secs(600);

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
    /// When the objects arrived, if that is recorded ([`Job::List`]).
    pub objects: ObjectTimes,
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
    pub result: Result<Option<(Listed, Option<Contents>)>, ListError>,
}

impl Done {
    /// Returns the outcome of a job that could not be started.
    fn failed(error: ListError) -> Self {
        Self {
            latency: Duration::ZERO,
            objects: ObjectTimes::default(),
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
                let list_client = timeout(LIST_TIMEOUT, case.connect(&endpoint)).await;
                list_client.unwrap_or(Err(ListError::Slow(LIST_TIMEOUT)))
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
        let (done, outcome) = oneshot::channel();
        if let Some(jobs) = self.jobs.get(client) {
            jobs.send((job, done)).ok();
        }
        outcome.await.unwrap_or_else(|_| Done::lost(client))
    }

    /// Performs one round: every client starts `job` at once. Returns when all have ended.
    pub async fn round(&self, job: Job) -> Vec<Done> {
        let mut pending = Vec::with_capacity(self.jobs.len());
        for client in &self.jobs {
            let (done, outcome) = oneshot::channel();
            // If the thread has ended, `done` is dropped, which ends the wait as well.
            client.send((job, done)).ok();
            pending.push(outcome);
        }
        let mut all = Vec::with_capacity(pending.len());
        for (client, outcome) in pending.into_iter().enumerate() {
            all.push(outcome.await.unwrap_or_else(|_| Done::lost(client)));
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
    let ready = timeout(LIST_TIMEOUT, list_client.before()).await;
    if let Err(error) = ready.unwrap_or(Err(ListError::Slow(LIST_TIMEOUT))) {
        return Done::failed(error);
    }
    heap::begin();
    let mut objects = ObjectTimes::default();
    let mut tries = Tries::begin();
    let work = attempts::until_whole(list_client, &mut tries, async |list_client, begun| {
        attempt(list_client, job, verifier, begun, &mut objects).await
    });
    let result = timeout(LIST_TIMEOUT, work).await;
    let result = result.unwrap_or(Err(ListError::Slow(LIST_TIMEOUT)));
    let elapsed = tries.elapsed();
    let program = list_client.cost();
    Done {
        latency: program.as_ref().map_or(elapsed, |cost| cost.latency),
        objects,
        cpu: tries.cpu(),
        memory: heap::most(),
        restarts: tries.restarts(),
        program,
        result,
    }
}

/// Makes one attempt at a job. Notes in `objects` when those of a checked list arrived, as times
/// since `begun`.
async fn attempt(
    list_client: &mut dyn ListClient,
    job: Job,
    verifier: &Verifier,
    begun: Instant,
    objects: &mut ObjectTimes,
) -> Result<Option<(Listed, Option<Contents>)>, ListError> {
    match job {
        Job::List if list_client.is_idle() => Ok(None),
        Job::List => {
            *objects = ObjectTimes::default();
            list(list_client, verifier, begun, objects).await.map(Some)
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
        Job::Check => check_latest(list_client, verifier).await.map(Some),
    }
}

/// Lists everything and checks every object, if the client passes them on. Notes in `objects` when
/// they arrived.
async fn list(
    list_client: &mut dyn ListClient,
    verifier: &Verifier,
    begun: Instant,
    objects: &mut ObjectTimes,
) -> Result<(Listed, Option<Contents>), ListError> {
    let mut check = Check::new(&verifier.root);
    let at_least = verifier
        .latest_revision()
        .filter(|_| list_client.is_monotonic());
    let mut on_objects = || objects.note(begun.elapsed());
    let listed = list_client.list(&mut check, &mut on_objects).await?;
    objects.end(begun.elapsed());
    if !list_client.shows_objects() {
        return Ok((listed, None));
    }
    let contents = check.finish(&listed, verifier.of(list_client.node()).as_ref())?;
    verifier.agree(&listed, &contents, at_least)?;
    Ok((listed, Some(contents)))
}

/// Checks the latest list.
async fn check_latest(
    list_client: &mut dyn ListClient,
    verifier: &Verifier,
) -> Result<(Listed, Option<Contents>), ListError> {
    let mut check = Check::new(&verifier.root);
    let at_least = verifier.latest_revision();
    let listed = list_client.show_latest(&mut check).await?;
    let contents = check.finish(&listed, verifier.of(None).as_ref())?;
    verifier.agree(&listed, &contents, at_least)?;
    Ok((listed, Some(contents)))
}
