//! The server under attack, which runs in its own process: its memory, its metrics, and a
//! well-behaved client.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::MAX_GROWTH_BYTES;
use crate::frames::Attacker;

/// Maximum time for which a well-behaved client may wait.
const SERVED_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time until a metric of the server has the expected value.
const COUNT_TIMEOUT: Duration = Duration::from_secs(30);

/// The API that is attacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Etcd,
    Kube,
}

pub(crate) const BOTH: [Port; 2] = [Port::Etcd, Port::Kube];

/// A running server; killed when dropped.
pub(crate) struct Victim {
    child: Child,
    etcd: String,
    kube: String,
    /// The server's memory at rest.
    idle_bytes: u64,
}

impl Victim {
    /// Starts both tiers over one store, with further flags. The environment variable
    /// `ATTACKED_SERVER` names another program to run instead, with which the effect of an attack
    /// on a server without the limit can be seen.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with_descriptors(None, flags)
    }

    /// Starts both tiers like [`Self::start`], with a limit of file descriptors.
    pub(crate) fn start_with_descriptors(most: Option<u32>, flags: &[&str]) -> Self {
        raise_own_descriptors();
        let own = env!("CARGO_BIN_EXE_bench-server").to_owned();
        let server = std::env::var("ATTACKED_SERVER").unwrap_or(own);
        let limit = most.map_or(String::new(), |most| format!("ulimit -n {most} && "));
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("{limit}exec \"$0\" \"$@\""), &server])
            .args(["--listen-client-urls=http://127.0.0.1:0"])
            .args(["--listen-kube-urls=http://127.0.0.1:0"])
            .args(["--backend=embedded", "--log-level=warn"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut ready = |tier: &str| {
            let line = lines.next().expect("it says where it listens");
            let line = line.expect("it is text");
            let url = line.strip_prefix(&format!("ready {tier}=http://"));
            url.unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        let (etcd, kube) = (ready("etcd"), ready("kube"));
        let victim = Self {
            child,
            etcd,
            kube,
            idle_bytes: 0,
        };
        let begun = Instant::now();
        while !victim
            .http(Port::Kube, "GET", "/readyz", "")
            .starts_with("HTTP/1.1 200")
        {
            assert!(begun.elapsed() < COUNT_TIMEOUT, "its caches are not filled");
        }
        victim
    }

    pub(crate) fn authority(&self, port: Port) -> &str {
        match port {
            Port::Etcd => &self.etcd,
            Port::Kube => &self.kube,
        }
    }

    /// Stores `bytes` bytes in small keys, and the same in pods. Lists of small keys copy their
    /// objects into frames, lists of pods encode them.
    pub(crate) fn seed(&self, bytes: usize) {
        const VALUE: usize = 1_000;
        const POD: usize = 5_000;
        let small = (0..bytes / VALUE).map(|i| PutRequest {
            key: format!("/small/{i:08}").into(),
            value: vec![b'v'; VALUE].into(),
            ..Default::default()
        });
        self.put(small);
        self.seed_pods(bytes / POD, POD);
    }

    /// Stores pods with an annotation of this size.
    pub(crate) fn seed_pods(&self, pods: usize, bytes: usize) {
        let filler = "x".repeat(bytes);
        for i in 0..pods {
            let pod = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{i}","namespace":"a","annotations":{{"a":"{filler}"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
            );
            let answer = self.http(Port::Kube, "POST", "/api/v1/namespaces/a/pods", &pod);
            assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        }
    }

    /// Stores keys.
    pub(crate) fn put(&self, puts: impl IntoIterator<Item = PutRequest>) {
        runtime().block_on(async {
            let client = self.client().await;
            for put in puts {
                client.kv().put(put).await.expect("room");
            }
        });
    }

    /// Records the server's current memory as its memory at rest.
    pub(crate) fn rest(&mut self) {
        for port in BOTH {
            self.serves(port);
        }
        self.idle_bytes = self.memory("VmRSS:");
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")
            .expect("our own process");
    }

    fn memory(&self, name: &str) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|n| n.parse::<u64>().ok()).expect("a size") * 1024
    }

    /// Returns the difference of the peak memory since [`Self::rest`] and the memory at rest.
    pub(crate) fn growth(&self) -> u64 {
        self.memory("VmHWM:").saturating_sub(self.idle_bytes)
    }

    /// Asserts that the attack cost little memory, and that other clients are served.
    #[track_caller]
    pub(crate) fn withstands(&self, attack: &str, port: Port) {
        self.serves(port);
        let growth = self.growth();
        println!(
            "{attack} on {port:?}: {:.1} MiB",
            growth as f64 / (1 << 20) as f64
        );
        assert!(
            growth < MAX_GROWTH_BYTES,
            "{attack} on {port:?} cost {growth} bytes"
        );
    }

    /// Asserts that [`Self::withstands`] holds for responses that are not read, and that some of
    /// them are reset. Those that wait for the stalled ones are not stalled themselves.
    #[track_caller]
    pub(crate) fn outlives_stalled(&self, attacker: Attacker, attack: &str, port: Port) {
        self.serves(port);
        self.until(port, "bench_server_stalled_responses_total", |stalled| {
            stalled >= 4.0
        });
        self.serves(port);
        drop(attacker);
        self.until(port, "bench_server_in_flight_bytes", |bytes| {
            bytes < 65_536.0
        });
        self.withstands(attack, port);
    }

    /// Asserts that a new client is served.
    #[track_caller]
    pub(crate) fn serves(&self, port: Port) {
        match port {
            Port::Etcd => runtime().block_on(async {
                let served = async {
                    let client = self.client().await;
                    let range = RangeRequest {
                        key: b"/small/00000000".to_vec().into(),
                        ..Default::default()
                    };
                    client.kv().range(range).await.expect("an answer");
                };
                let served = tokio::time::timeout(SERVED_TIMEOUT, served).await;
                served.expect("in time");
            }),
            Port::Kube => {
                let answer = self.http(port, "GET", "/api/v1/namespaces/none/pods", "");
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            }
        }
    }

    pub(crate) async fn client(&self) -> Client {
        let config = ClientConfig::new(&format!("http://{}", self.etcd)).expect("a URL");
        Client::connect(config).await.expect("it accepts")
    }

    /// Sends an HTTP/1.1 request over a new connection; returns the response.
    #[track_caller]
    pub(crate) fn http(&self, port: Port, method: &str, path: &str, body: &str) -> String {
        self.http_within(SERVED_TIMEOUT, port, method, path, body)
    }

    /// Sends a request like [`Self::http`], whose response begins within `time`.
    #[track_caller]
    pub(crate) fn http_within(
        &self,
        time: Duration,
        port: Port,
        method: &str,
        path: &str,
        body: &str,
    ) -> String {
        http(self.authority(port), time, method, path, body)
    }

    /// Returns the value of a metric without labels, as `port` exports it.
    #[track_caller]
    pub(crate) fn metric(&self, port: Port, name: &str) -> f64 {
        metric(self.authority(port), name)
    }

    /// Waits until `holds` returns true for the value of a metric.
    #[track_caller]
    pub(crate) fn until(&self, port: Port, name: &str, holds: impl Fn(f64) -> bool) {
        let begun = Instant::now();
        loop {
            let value = self.metric(port, name);
            if holds(value) {
                return;
            }
            assert!(begun.elapsed() < COUNT_TIMEOUT, "{name} is still {value}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The server may have exited.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[track_caller]
pub(crate) fn metric(authority: &str, name: &str) -> f64 {
    let text = http(authority, SERVED_TIMEOUT, "GET", "/metrics", "");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("{name} is not in {text}"));
    value.trim().parse().expect("a number")
}

#[track_caller]
fn http(authority: &str, time: Duration, method: &str, path: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(authority).expect("it listens");
    socket.set_read_timeout(Some(time)).expect("a timeout");
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: victim\r\nconnection: close\r\n");
    if !body.is_empty() {
        let length = body.len();
        write!(
            request,
            "content-type: application/json\r\ncontent-length: {length}\r\n"
        )
        .expect("text");
    }
    request += "\r\n";
    request += body;
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    socket
        .read_to_string(&mut answer)
        .expect("an answer in time");
    answer
}

fn raise_own_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, all).expect("up to the hard limit");
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
