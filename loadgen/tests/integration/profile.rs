//! `loadgen run --profile`: profiles of Go servers and of bench-server are saved and drawn, and the
//! reason is reported if there is none. The tests do not check the shares of functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use kube_api::client::{Connection, KubeAccess, Options};
use serde_json::Value;
use tempfile::TempDir;
use test_support::http1_server::Http1Server;

use crate::support::served::Served;

/// A CPU profile of etcd 3.7.1 while objects were listed.
const ETCD: &[u8] = include_bytes!("profile/etcd-3.7.1.pb.gz");
/// The prefix of some of the profile's functions.
const RANGE: &str = "go.etcd.io/etcd/server/v3/";

const HEAD: &str = r#"
name = "small"
summary = "a few objects"
repeats = 2
duration = "2s"
first_chunk_streams = 0

[[data_set]]
name = "few"
kind = "pods"
objects = 60
namespaces = 3
nodes = 4
seed = 1
"#;

const LISTS: &str = r#"
[cases]
kube = ["consistent"]

[[threshold]]
name = "a list within a minute"
source = "this test"
case = "kube/consistent"
metric = "latency_ms.max"
at_most = 60_000
"#;

/// Small requests without pauses, which keep a server busy.
const BUSY: &str = r#"
[[case]]
name = "busy"
load = [
    { name = "gets", operation = "get", clients = 16, connections = 2 },
    { name = "lists", operation = { list = "unary" }, clients = 2 },
]
"#;

/// A folder for the results of runs.
struct Runs(TempDir);

/// A finished run.
struct Run {
    code: Option<i32>,
    log: String,
    /// The folder of the run's result.
    folder: PathBuf,
    report: Value,
}

impl Runs {
    fn new(cases: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("small.toml"), format!("{HEAD}{cases}")).expect("a folder");
        Self(folder)
    }

    /// Runs the scenario with these flags; saves the result below `out`.
    fn run(&self, out: &str, flags: &[&str]) -> Run {
        let args = ["run", "small.toml", "--profile", "--out", out];
        let (code, log) = self.loadgen(&[&args[..], flags].concat());
        let out = self.0.path().join(out);
        let folders = fs::read_dir(&out).into_iter().flatten().flatten();
        let folder = folders.map(|entry| entry.path()).next();
        let folder = folder.unwrap_or_else(|| panic!("no result: {log}"));
        let report = fs::read(folder.join("report.json")).expect("a report");
        Run {
            code,
            log,
            report: serde_json::from_slice(&report).expect("JSON"),
            folder,
        }
    }

    /// Runs `loadgen`; returns exit code and output.
    fn loadgen(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args(args)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code(), said)
    }
}

impl Run {
    /// Returns the profiles of the first case.
    fn profiles(&self) -> &[Value] {
        let profiles = self.report["cases"][0]["profiles"].as_array();
        profiles.unwrap_or_else(|| panic!("{}", self.log))
    }

    /// Returns the only profile of the first case.
    fn profile(&self) -> &Value {
        let [profile] = self.profiles() else {
            panic!("one profile: {:?}", self.profiles());
        };
        profile
    }

    fn file(&self, name: &str) -> String {
        let text = fs::read_to_string(self.folder.join(name));
        text.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// A Kubernetes API that serves a given profile, and forwards all other requests to another server.
struct WithProfile {
    front: Http1Server,
    _behind: Served,
}

impl WithProfile {
    /// Starts an API that responds to requests for its profile with this status and profile.
    fn start(status: StatusCode, profile: &'static [u8]) -> Self {
        let behind = Served::kube();
        let url = behind.url.clone();
        let front = Http1Server::start(move |request: Request<Incoming>| {
            let url = url.clone();
            async move {
                match request.uri().path() {
                    "/debug/pprof/" => Response::new(Full::new(Bytes::from_static(b"profiles"))),
                    "/debug/pprof/profile" => {
                        let query = request.uri().query().unwrap_or_default();
                        assert!(query.starts_with("seconds="), "{query}");
                        let mut response = Response::new(Full::new(Bytes::from_static(profile)));
                        *response.status_mut() = status;
                        response
                    }
                    _ => forwarded(&url, request).await,
                }
            }
        });
        Self {
            front,
            _behind: behind,
        }
    }

    fn url(&self) -> String {
        self.front.url()
    }
}

async fn forwarded(url: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let connection = Connection::new(url, KubeAccess::default(), Options::default());
    let mut connection = connection.expect("a URL");
    let path = head.uri.path_and_query().expect("a path").as_str();
    let mut headers = head.headers;
    headers.remove(http::header::HOST);
    headers.remove(http::header::CONTENT_LENGTH);
    let sent = connection.send(head.method, path, headers, body).await;
    let (mut head, body) = sent.expect("a response").into_parts();
    head.headers.remove(http::header::TRANSFER_ENCODING);
    let body = body.collect().await.expect("a body").to_bytes();
    Response::from_parts(head, Full::new(body))
}

/// Returns the flags of a run on an existing API.
fn on(url: &str) -> [&str; 5] {
    ["--kube", url, "--seed-data", "--pause", "0s"]
}

#[test]
fn a_profile_is_kept_as_it_was_sent_and_drawn_and_its_case_is_not_compared() {
    let server = WithProfile::start(StatusCode::OK, ETCD);
    let url = server.url();
    let runs = Runs::new(LISTS);
    let first = runs.run("first", &on(&url));
    assert_eq!(first.code, Some(0), "{}", first.log);
    let profile = first.profile();
    assert_eq!(profile["process"], url, "{profile}");
    assert_eq!(profile["profiler"], "pprof", "{profile}");
    assert!(profile["samples"].as_u64() > Some(0), "{profile}");
    assert!(
        profile["hottest"][0]["part"].as_f64() > Some(0.0),
        "{profile}"
    );
    let file = profile["file"].as_str().expect("a file");
    let kept = fs::read(first.folder.join(file)).expect("the file");
    assert!(kept == ETCD, "every byte of it");
    let graph = file.replace(".pb.gz", ".svg");
    let drawn = first.file(&graph);
    assert!(drawn.contains(RANGE), "it names etcd's functions");
    assert!(drawn.len() <= 150_000, "{} bytes", drawn.len());
    for page in ["README.md", "report.html"] {
        assert!(first.file(page).contains(&graph), "{page} has the link");
    }
    assert!(
        first.log.contains("profiled: its figures include"),
        "{}",
        first.log
    );
    assert!(first.log.contains(&graph), "{}", first.log);

    // The graph is drawn again from the saved profile.
    fs::remove_file(first.folder.join(&graph)).expect("it was there");
    let folder = first.folder.to_str().expect("text");
    let (code, said) = runs.loadgen(&["report", folder]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(first.file(&graph), drawn);

    let threshold = &first.report["bars"][0];
    assert_eq!(
        (&threshold["met"], &threshold["figure"]),
        (&Value::Null, &Value::Null)
    );
    let second = runs.run(
        "second",
        &[&on(&url)[..], &["--fail-on-threshold"]].concat(),
    );
    assert_eq!(second.code, Some(3), "{}", second.log);
    let (code, said) = runs.loadgen(&["compare", "first", "second"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("profiled"), "{said}");
}

#[test]
fn a_server_without_a_profile_is_measured_all_the_same() {
    let server = Served::kube();
    let runs = Runs::new(LISTS);
    let run = runs.run("out", &on(&server.url));
    assert_eq!(run.code, Some(0), "{}", run.log);
    let profile = run.profile();
    let missing = profile["missing"].as_str().expect("a reason");
    assert!(missing.contains("404"), "{missing}");
    assert!(missing.contains("--enable-pprof"), "{missing}");
    let said = format!("no profile of {}: {missing}", server.url);
    assert_eq!(run.log.matches(&said).count(), 1, "{}", run.log);
    assert!(run.file("README.md").contains(&format!("N/A: {missing}")));
    assert_eq!(run.report["bars"][0]["met"], true, "nothing disturbed it");
}

#[test]
fn what_is_sent_in_the_place_of_a_profile_is_no_profile() {
    let busy: &[u8] = b"Could not enable CPU profiling: cpu profiling already in use\n";
    for (status, sent, said) in [
        (StatusCode::INTERNAL_SERVER_ERROR, busy, "already in use"),
        (StatusCode::OK, b"nothing of the kind", "no gzip"),
        (StatusCode::OK, b"", "no gzip"),
    ] {
        let server = WithProfile::start(status, sent);
        let url = server.url();
        let runs = Runs::new(LISTS);
        let run = runs.run("out", &on(&url));
        assert_eq!(run.code, Some(0), "{}", run.log);
        let profile = run.profile();
        assert_eq!(profile["file"], Value::Null, "{profile}");
        let missing = profile["missing"].as_str().expect("a reason");
        assert!(missing.contains(said), "{missing}");
        assert!(!run.folder.join("profiles").exists(), "nothing was kept");
    }
}

/// bench-server serves no profile, so it is sampled by `perf`. If `perf` is not permitted, the
/// report must say so.
#[test]
fn our_own_server_is_sampled_by_perf_or_says_why_not() {
    let runs = Runs::new(BUSY);
    let run = runs.run("out", &["--target", "bench"]);
    assert_eq!(run.code, Some(0), "{}", run.log);
    let profile = run.profile();
    assert_eq!(profile["process"], "etcd", "{profile}");
    if let Some(missing) = profile["missing"].as_str() {
        assert!(missing.contains("perf"), "{missing}");
        println!("not sampled: {missing}");
        return;
    }
    assert_eq!(profile["profiler"], "perf", "{profile}");
    let file = profile["file"].as_str().expect("a file");
    assert!(file.ends_with(".folded.gz"), "{file}");
    let drawn = run.file(&file.replace(".folded.gz", ".svg"));
    assert!(
        drawn.contains("bench_server_etcd"),
        "it names our functions"
    );
    assert_eq!(run.report["cases"][0]["valid"], true, "{}", run.log);
}

#[test]
fn a_real_etcd_names_the_functions_that_took_its_time() {
    let Some(etcd) = test_support::program_or_skip("ETCD_BIN", "etcd") else {
        return;
    };
    let runs = Runs::new(BUSY);
    let run = runs.run("out", &["--target", &format!("etcd:{}", etcd.display())]);
    assert_eq!(run.code, Some(0), "{}", run.log);
    let profile = run.profile();
    assert_eq!(profile["profiler"], "pprof", "{profile}: {}", run.log);
    assert!(profile["sampled_s"].as_f64() >= Some(2.0), "{profile}");
    let file = profile["file"].as_str().expect("a file");
    let drawn = run.file(&file.replace(".pb.gz", ".svg"));
    assert!(drawn.contains(RANGE), "{profile}");
    let servers = &run.report["environment"]["servers"][0];
    let flags = servers["flags"].as_array().expect("flags");
    assert!(flags.contains(&"--enable-pprof".into()), "{servers}");
}

#[test]
fn what_cannot_be_profiled_together_is_said_in_one_line() {
    let runs = Runs::new(LISTS);
    let ab = ["ab", "--base", "bench", "--new", "bench", "--profile"];
    let (code, said) = runs.loadgen(&ab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("loadgen run --profile"), "{said}");
    let shard = ["run", "--profile", "--shard", "0/2"];
    let (code, said) = runs.loadgen(&shard);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--shard"), "{said}");
}

/// A report that names a file outside its folder must not cause writes there.
#[test]
fn a_report_of_somebody_else_draws_in_its_own_folder_only() {
    let server = WithProfile::start(StatusCode::OK, ETCD);
    let runs = Runs::new(LISTS);
    let run = runs.run("out", &on(&server.url()));
    let report = run.folder.join("report.json");
    let mut changed = run.report.clone();
    let file = run.profile()["file"].as_str().expect("a file").to_owned();
    fs::copy(run.folder.join(&file), runs.0.path().join("x.pb.gz")).expect("a copy");
    let elsewhere = runs.0.path().join("x.svg");
    for away in ["profiles/../../../x.pb.gz", "../../x.pb.gz"] {
        changed["cases"][0]["profiles"][0]["file"] = away.into();
        fs::write(&report, changed.to_string()).expect("the report");
        let (code, said) = runs.loadgen(&["report", run.folder.to_str().expect("text")]);
        assert_eq!(code, Some(0), "{said}");
        assert!(!elsewhere.exists(), "{away}");
        assert!(is_plain(&run.folder.join("README.md")), "{away}");
    }
}

/// Returns whether no link of a README leads out of its folder.
fn is_plain(readme: &Path) -> bool {
    !fs::read_to_string(readme)
        .expect("the README")
        .contains("](..")
}
