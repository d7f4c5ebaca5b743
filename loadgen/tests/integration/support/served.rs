//! bench-server in its own process, as an existing endpoint.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use kube_api::client::{Connection, KubeAccess, Options};
use serde_json::Value;

/// Time limit for an expected state.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running server; killed and waited for when dropped.
pub(crate) struct Served {
    child: Child,
    /// The server's URL.
    pub(crate) url: String,
}

impl Served {
    /// Starts a Kubernetes tier over its own store.
    pub(crate) fn kube() -> Self {
        Self::kube_with(&[])
    }

    /// Starts a Kubernetes tier over its own store, with these flags.
    pub(crate) fn kube_with(flags: &[&str]) -> Self {
        let any = "http://127.0.0.1:0";
        let store = ["--backend", "embedded", "--listen-client-urls", any];
        let flags = [&store[..], flags, &["--listen-kube-urls"]].concat();
        Self::start(&flags, any, "ready kube=")
    }

    /// Starts a Kubernetes tier over HTTPS, with this certificate and its key.
    pub(crate) fn kube_over_tls(cert: &Path, key: &Path) -> Self {
        Self::kube_of_clients(cert, key, None)
    }

    /// Starts a Kubernetes tier over HTTPS. Client certificates are optional, and must be signed by
    /// this CA.
    pub(crate) fn kube_of_clients(cert: &Path, key: &Path, clients_ca: Option<&Path>) -> Self {
        let files = [
            Some(format!("--tls-cert-file={}", cert.display())),
            Some(format!("--tls-private-key-file={}", key.display())),
            clients_ca.map(|ca| format!("--client-ca-file={}", ca.display())),
        ];
        let any = "http://127.0.0.1:0";
        let mut flags = vec!["--backend", "embedded", "--listen-client-urls", any];
        flags.extend(files.iter().flatten().map(String::as_str));
        flags.push("--listen-kube-urls");
        Self::start(&flags, "https://127.0.0.1:0", "ready kube=")
    }

    /// Starts a Kubernetes tier with these flags over the etcd at these endpoints.
    pub(crate) fn kube_over(endpoints: &str, flags: &[&str]) -> Self {
        let any = "http://127.0.0.1:0";
        let over = ["--etcd-servers", endpoints];
        let flags = [&over[..], flags, &["--listen-kube-urls"]].concat();
        Self::start(&flags, any, "ready kube=")
    }

    /// Starts an etcd tier.
    pub(crate) fn etcd() -> Self {
        let any = "http://127.0.0.1:0";
        Self::start(&["--listen-client-urls"], any, "ready etcd=")
    }

    /// Starts a server with `flags`, the last of which has the value `listen`.
    fn start(flags: &[&str], listen: &str, ready: &str) -> Self {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
            .arg("serve")
            .args(flags)
            .arg(listen)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = stdout.lines().map_while(Result::ok);
        let url = lines
            .find_map(|line| line.strip_prefix(ready).map(str::to_owned))
            .expect("it says where it listens");
        Self { child, url }
    }

    /// Stops all threads of the server for this time.
    pub(crate) fn stall(&self, time: Duration) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let signal = |signal| nix::sys::signal::kill(pid, signal).expect("it runs");
        signal(nix::sys::signal::SIGSTOP);
        thread::sleep(time);
        signal(nix::sys::signal::SIGCONT);
    }

    /// Sends a POST request with an object in JSON.
    pub(crate) fn post(&self, path: &str, object: &Value) {
        self.ask(Method::POST, path, object.to_string());
    }

    /// Returns the names of a collection's objects in all namespaces.
    pub(crate) fn names(&self, resource: &str) -> Vec<String> {
        self.names_at(&format!("/api/v1/{resource}"))
    }

    /// Returns the names of the objects of the collection at a path.
    pub(crate) fn names_at(&self, path: &str) -> Vec<String> {
        let list = self.ask(Method::GET, path, String::new());
        let items = list["items"].as_array().expect("a list");
        let name = |item: &Value| {
            item["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        items.iter().map(name).collect()
    }

    /// Waits until `wanted` returns true for the names of a collection.
    pub(crate) fn until(&self, resource: &str, wanted: fn(&[String]) -> bool) {
        let begun = Instant::now();
        while !wanted(&self.names(resource)) {
            assert!(begun.elapsed() < TIMEOUT, "{resource} never became so");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a request, and repeats it while the server requests a retry, as it does while a cache
    /// is filled.
    fn ask(&self, method: Method, path: &str, body: String) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let begun = Instant::now();
        loop {
            let answer = runtime.block_on(self.once(method.clone(), path, body.clone()));
            if answer.0 != StatusCode::TOO_MANY_REQUESTS || begun.elapsed() > TIMEOUT {
                assert!(answer.0.is_success(), "{path}: {}", answer.0);
                return serde_json::from_slice(&answer.1).expect("JSON");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    async fn once(&self, method: Method, path: &str, body: String) -> (StatusCode, Bytes) {
        let connection = Connection::new(&self.url, KubeAccess::default(), Options::default());
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::ACCEPT, json.clone());
        headers.insert(header::CONTENT_TYPE, json);
        let mut connection = connection.expect("a URL");
        let answer = connection.send(method, path, headers, body.into()).await;
        let answer = answer.expect("an answer");
        let status = answer.status();
        let body = answer.into_body().collect().await.expect("a body");
        (status, body.to_bytes())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The server may have exited already; either way it must be reaped.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
