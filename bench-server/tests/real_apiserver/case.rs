//! Cases: requests to both servers. The differences of the responses are collected and reported at
//! the end of a case.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ::http::Method;
use etcd_api::kubernetes::{KubernetesEtcd, PutOptions};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::ages;
use crate::apiserver::{self, Apiserver};
use crate::compare::{Answer, Body, Question, bytes, differences, plain};
use crate::data::{self, Data};
use crate::harness::{Backend, TestCluster};
use crate::http::{Reply, send};
use crate::known_differences::{BY_CHANCE, KNOWN_DIFFERENCES, KnownDifference, level};
use crate::pair::{self, Second};

/// Time limit of a case, without the start of servers and the writing of data.
const CASE_LIMIT: Duration = Duration::from_secs(120);
/// Time limit for the start of the servers and the writing of their data.
const START_LIMIT: Duration = Duration::from_secs(900);
/// Maximum number of attempts of a comparison: a server may write on its own between two requests.
const ATTEMPTS: usize = 2;
/// Maximum number of differences that are reported for a case.
const TOLD: usize = 60;

/// A test case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `file::function`.
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) run: for<'e> fn(&'e CaseContext<'e>) -> Pin<Box<dyn Future<Output = ()> + 'e>>,
}

/// The servers that a case runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// bench-server's etcd tier only: the case does not depend on storage.
    Once,
    /// bench-server's etcd tier and etcd 3.7.3, each with bench-server's Kubernetes tier and a real
    /// server.
    OverEachEtcd,
    /// The servers of [`Self::OverEachEtcd`], and a pair of real servers.
    Everywhere,
}

/// Lists a file's cases: `cases![one everywhere; two once; three over_each_etcd]`.
macro_rules! cases {
    (@where everywhere) => { $crate::case::Place::Everywhere };
    (@where over_each_etcd) => { $crate::case::Place::OverEachEtcd };
    (@where once) => { $crate::case::Place::Once };
    ($($name:ident $place:ident);* $(;)?) => {
        pub(crate) fn cases() -> Vec<$crate::case::Case> {
            vec![$($crate::case::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                place: $crate::case::cases!(@where $place),
                run: |context| Box::pin($name(context)),
            }),*]
        }
    };
}
pub(crate) use cases;

/// The server with which a real server is compared.
enum Other {
    /// bench-server's Kubernetes tier, over the same etcd.
    Tier(Box<TestCluster>),
    /// A real server over another etcd.
    Real(Box<Second>),
}

/// The pair of servers that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pairing {
    /// A real server and bench-server's Kubernetes tier, over this etcd.
    Over(Backend),
    /// Two real servers, each over its own etcd.
    TwoReal,
}

impl Pairing {
    const ALL: [Self; 3] = [
        Self::Over(Backend::Bench),
        Self::Over(Backend::Etcd),
        Self::TwoReal,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Over(Backend::Etcd) => "etcd",
            Self::Over(_) => "bench",
            Self::TwoReal => "pair",
        }
    }

    fn has(self, place: Place) -> bool {
        match self {
            Self::Over(Backend::Etcd) => place != Place::Once,
            Self::Over(_) => true,
            Self::TwoReal => place == Place::Everywhere,
        }
    }

    /// Returns the reason why the pair cannot run here, if there is one.
    fn missing(self) -> Option<String> {
        let needed = match self {
            Self::Over(backend) => backend,
            Self::TwoReal => Backend::Etcd,
        };
        apiserver::program().err().or_else(|| needed.missing())
    }

    /// Starts both servers and writes their data, within [`START_LIMIT`].
    async fn start(self) -> Result<World, String> {
        let started = async {
            match self {
                Self::Over(backend) => World::start(backend).await,
                Self::TwoReal => pair::start().await,
            }
        };
        let limited = tokio::time::timeout(START_LIMIT, started).await;
        limited.unwrap_or_else(|_| Err(format!("not started after {START_LIMIT:?}")))
    }
}

/// Both servers, and the data in their etcd.
pub(crate) struct World {
    other: Other,
    pub(crate) real: Apiserver,
    pub(crate) data: Data,
    /// The differences that are allowed.
    known: &'static [KnownDifference],
    /// The known differences that occurred.
    met: Mutex<BTreeSet<&'static str>>,
}

impl World {
    async fn start(backend: Backend) -> Result<Self, String> {
        let mut ours = TestCluster::start(backend, &[]).await?;
        let etcd = ours.etcd().url.clone();
        // The first revisions are older than any cache.
        let storage = ours.storage().await;
        for i in 0..10_u8 {
            let key = [b"/before/", &[i][..]].concat();
            let put = storage.optimistic_put(&key, "x".into(), 0, PutOptions::default());
            put.await.map_err(|error| error.to_string())?;
        }
        // bench-server starts before the data is written. The length of its cache's history depends
        // on the rate of the following writes.
        ours.restart().await;
        let real = Apiserver::start(&etcd).await?;
        let data = data::write(&real).await;
        Ok(Self {
            other: Other::Tier(Box::new(ours)),
            real,
            data,
            known: KNOWN_DIFFERENCES,
            met: Mutex::default(),
        })
    }

    /// Returns the world of two real servers.
    pub(crate) fn of_two(second: Second, real: Apiserver, data: Data) -> Self {
        Self {
            other: Other::Real(Box::new(second)),
            real,
            data,
            known: pair::KNOWN_DIFFERENCES,
            met: Mutex::default(),
        }
    }

    /// Returns the URL of the server with which the real one is compared.
    pub(crate) fn our_url(&self) -> &str {
        match &self.other {
            Other::Tier(tier) => &tier.url,
            Other::Real(second) => &second.server.url,
        }
    }

    /// Returns whether both servers are real ones.
    pub(crate) fn is_pair(&self) -> bool {
        matches!(self.other, Other::Real(_))
    }

    /// Returns bench-server's Kubernetes tier.
    pub(crate) fn ours(&self) -> &TestCluster {
        match &self.other {
            Other::Tier(tier) => tier,
            Other::Real(_) => panic!("the case does not run with two real servers"),
        }
    }
}

type Shared = Arc<OnceLock<Result<World, String>>>;

/// Runs every case on each of its pairs of servers, filtered by the command line.
pub(crate) fn run_all(cases: &[Case]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Cases share their servers, so writes of one case must not come between two requests of
    // another.
    arguments.test_threads = Some(1);
    let whole = arguments.filter.is_none() && arguments.skip.is_empty();
    let worlds = Pairing::ALL.map(|pairing| (pairing, Shared::default()));
    let missing = apiserver::program().err();
    let mut trials = Vec::new();
    for (pairing, world) in &worlds {
        let name = pairing.name();
        for case in cases.iter().filter(|case| pairing.has(case.place)) {
            let missing = pairing.missing();
            let (case, pairing, world) = (*case, *pairing, world.clone());
            let (_, of_file) = case.name.split_once("::").unwrap_or_default();
            let ignored = missing.is_some();
            let trial = Trial::test(format!("{name}::{of_file}"), move || match missing {
                Some(reason) => Err(Failed::from(reason)),
                None => run(pairing, &world, case),
            });
            trials.push(trial.with_ignored_flag(ignored));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let unmet = unmet(&worlds);
    if whole && !conclusion.has_failed() && missing.is_none() && !unmet.is_empty() {
        eprintln!("known differences that are none any more: {unmet:?}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// Returns the known differences that no response had, except for those of [`BY_CHANCE`].
fn unmet(worlds: &[(Pairing, Shared)]) -> Vec<&'static str> {
    let worlds = worlds.iter().filter_map(|(_, world)| world.get());
    let met: BTreeSet<_> = worlds
        .filter_map(|world| world.as_ref().ok())
        .flat_map(|world| world.met.lock().expect("nobody panics with it").clone())
        .collect();
    let names = KNOWN_DIFFERENCES.iter().map(|known| known.name);
    let sure = names.filter(|name| !BY_CHANCE.contains(name));
    sure.filter(|name| !met.contains(name)).collect()
}

fn run(pairing: Pairing, world: &Shared, case: Case) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let world = world.get_or_init(|| runtime.block_on(pairing.start()));
    let world = world.as_ref().map_err(Failed::from)?;
    let context = CaseContext {
        world,
        findings: RefCell::default(),
        asked: RefCell::default(),
    };
    let ended =
        runtime.block_on(async { tokio::time::timeout(CASE_LIMIT, (case.run)(&context)).await });
    if ended.is_err() {
        return Err(Failed::from(format!("not finished after {CASE_LIMIT:?}")));
    }
    let findings = context.findings.into_inner();
    if findings.is_empty() {
        return Ok(());
    }
    let (asked, count) = (context.asked.into_inner(), findings.len());
    let told = findings[..count.min(TOLD)].join("\n");
    Err(Failed::from(format!(
        "{count} of {asked} answers differ\n{told}"
    )))
}

/// A case's view of the servers.
pub(crate) struct CaseContext<'w> {
    pub(crate) world: &'w World,
    findings: RefCell<Vec<String>>,
    asked: RefCell<usize>,
}

impl CaseContext<'_> {
    /// Records a finding, which fails the case.
    pub(crate) fn finding(&self, text: String) {
        self.findings.borrow_mut().push(text);
    }

    /// Sends a GET request to both servers and compares; returns the real server's response.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let question = Question {
            method: &Method::GET,
            path,
            headers,
            body: "",
        };
        self.ask(question).await
    }

    /// Sends a request to both servers and compares the responses; returns the real server's. The
    /// request may be repeated, so it must be idempotent.
    pub(crate) async fn ask(&self, question: Question<'_>) -> Reply {
        *self.asked.borrow_mut() += 1;
        let (ours, real) = (self.world.our_url(), &self.world.real.url);
        let mut attempt = 0;
        loop {
            attempt += 1;
            if attempt > 1 && *question.method == Method::GET && !question.path.contains("/watch/")
            {
                // Consistent lists bring both caches up to date with etcd, independent of the
                // request's options.
                let (path, _) = question.path.split_once('?').unwrap_or((question.path, ""));
                let list = Question { path, ..question };
                futures::join!(put(real, list), put(ours, list));
            }
            let (theirs, our) = futures::join!(put(real, question), put(ours, question));
            let found = self.differ(question, &theirs, &our);
            if found.is_empty() || attempt == ATTEMPTS {
                self.tell(question, found);
                return theirs;
            }
        }
    }

    /// Records the differences of two responses.
    pub(crate) fn compare(&self, question: Question<'_>, real: &Reply, ours: &Reply) {
        *self.asked.borrow_mut() += 1;
        let found = self.differ(question, real, ours);
        self.tell(question, found);
    }

    fn tell(&self, question: Question<'_>, found: Vec<String>) {
        if !found.is_empty() {
            self.finding(format!("{question}\n    {}", found.join("\n    ")));
        }
    }

    /// Records which of the known differences these responses have.
    fn met(&self, question: Question<'_>, real: Answer, ours: Answer) {
        let mut met = self.world.met.lock().expect("nobody panics with it");
        let names = self.world.known.iter().map(|known| known.name);
        for name in names.filter(|name| !met.contains(name)).collect::<Vec<_>>() {
            let (mut theirs, mut our) = (real.clone(), ours.clone());
            level(
                self.world.known,
                question,
                &mut theirs,
                &mut our,
                Some(name),
            );
            if theirs != our {
                met.insert(name);
            }
        }
    }

    fn differ(&self, question: Question<'_>, real: &Reply, ours: &Reply) -> Vec<String> {
        let (mut theirs, mut our) = (Answer::new(real), Answer::new(ours));
        if theirs == our {
            let (real, ours) = (plain(real), plain(ours));
            // The real server indents the error of a request for a Table or PartialObjectMetadata
            // for any client.
            let shaped_error = our.code >= 400 && question.header("accept").contains("as=");
            return match real == ours || matches!(our.body, Body::Bytes(_)) || shaped_error {
                true => Vec::new(),
                false => vec![format!("the same values, but {}", bytes(&real, &ours))],
            };
        }
        ages::level(&mut theirs, &mut our);
        let (real, ours) = (theirs.clone(), our.clone());
        level(self.world.known, question, &mut theirs, &mut our, None);
        let found = differences(&theirs, &our);
        if found.is_empty() {
            self.met(question, real, ours);
        }
        found
    }
}

/// Sends a request; returns the response.
pub(crate) async fn put(url: &str, question: Question<'_>) -> Reply {
    let Question {
        method,
        path,
        headers,
        body,
    } = question;
    send(url, method.clone(), path, headers, body.to_owned()).await
}
