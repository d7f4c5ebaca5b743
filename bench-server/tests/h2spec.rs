//! Runs h2spec, a client that deliberately violates HTTP/2, against both tiers, in plain text and
//! over TLS.
//!
//! The failed cases must be exactly those of [`KNOWN`], and the server's memory must not grow.
//! `scripts/oracle h2spec` builds the program; `H2SPEC_BIN` names another.

#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "conformance/peer.rs"]
mod peer;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use libtest_mimic::Arguments;
use procfs::process::Process;
use test_support::{program, trial};

use test_support::identity::Identity;

/// The program that serves both tiers.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server");

/// Environment variable and name of h2spec.
const H2SPEC: (&str, &str) = ("H2SPEC_BIN", "h2spec");

/// Number of cases of h2spec 2.2.1, including the strict ones.
const CASES: usize = 146;

/// Time for which h2spec waits for an expected frame, seconds.
const TIMEOUT_S: u32 = 5;

/// Maximum growth of the server's memory, bytes.
const MAX_GROWTH: u64 = 64 << 20;

/// The port of a server that is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Etcd,
    EtcdTls,
    Kube,
    KubeTls,
}

const PORTS: [Port; 4] = [Port::Etcd, Port::EtcdTls, Port::Kube, Port::KubeTls];

impl Port {
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::EtcdTls => "etcd_tls",
            Self::Kube => "kube",
            Self::KubeTls => "kube_tls",
        }
    }

    fn is_tls(self) -> bool {
        matches!(self, Self::EtcdTls | Self::KubeTls)
    }

    fn is_etcd(self) -> bool {
        matches!(self, Self::Etcd | Self::EtcdTls)
    }
}

/// A case that is known to fail.
struct Known {
    /// The case's section, as h2spec prints it.
    section: &'static str,
    /// The case's description, as h2spec prints it.
    case: &'static str,
    /// Whether the case also fails over TLS.
    over_tls: bool,
    /// Why the case fails.
    #[allow(dead_code, reason = "for whoever reads this table")]
    reason: &'static str,
}

const KNOWN: &[Known] = &[Known {
    section: "http2/3.5",
    case: "Sends invalid connection preface",
    over_tls: false,
    reason: "one port speaks HTTP/1.1, too: what is no preface is a request there, and is answered with 400 before \
                 the connection is closed. Where ALPN has chosen HTTP/2 it is closed at once",
}];

fn main() -> ExitCode {
    let missing = program(H2SPEC.0, H2SPEC.1).err();
    let trials = PORTS.map(|port| trial(port.name(), missing.clone(), move || check(port)));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// Runs every case against one port of a new server.
fn check(port: Port) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(port)?;
    let idle = server.memory(|status| status.vmrss)?;
    let report = folder.path().join("report.xml");
    let mut h2spec = Command::new(program(H2SPEC.0, H2SPEC.1)?);
    h2spec
        .args(["-h", "127.0.0.1", "-P", "/version", "--strict"])
        .args(["-p", &server.port, "-o", &TIMEOUT_S.to_string()])
        .arg("-j")
        .arg(&report);
    if port.is_tls() {
        h2spec.args(["--tls", "--insecure"]);
    }
    // h2spec fails if a case fails; the report names the cases.
    let output = h2spec.output().map_err(|error| error.to_string())?;
    let found = failures(&report).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stdout);
        format!("{error}; h2spec said:\n{said}")
    })?;
    let known = KNOWN
        .iter()
        .filter(|known| known.over_tls || !port.is_tls());
    let known = known.map(|known| (known.section.to_owned(), known.case.to_owned()));
    let known: BTreeSet<_> = known.collect();
    if found != known {
        let said = String::from_utf8_lossy(&output.stdout);
        let at = said.find("Failures").unwrap_or_default();
        let all: Vec<_> = found.symmetric_difference(&known).collect();
        return Err(format!(
            "not as KNOWN says: {all:#?}; h2spec said:\n{}",
            &said[at..]
        ));
    }
    let most = server.memory(|status| status.vmhwm)?;
    match most.saturating_sub(idle) {
        grown if grown < MAX_GROWTH => Ok(()),
        grown => Err(format!("the server grew by {grown} bytes")),
    }
}

/// Returns the section and the name of each case that failed, from a JUnit report.
fn failures(report: &Path) -> Result<BTreeSet<(String, String)>, String> {
    let text = std::fs::read_to_string(report).map_err(|error| error.to_string())?;
    let cases: Vec<&str> = text.split("<testcase ").skip(1).collect();
    if cases.len() != CASES {
        return Err(format!("{} cases in the report, not {CASES}", cases.len()));
    }
    let mut failed = BTreeSet::new();
    for case in cases {
        let attribute = |name: &str| {
            let (_, rest) = case.split_once(&format!("{name}=\""))?;
            let (value, _) = rest.split_once('"')?;
            Some(value.replace("&#34;", "\"").replace("&#39;", "'"))
        };
        let (Some(section), Some(name)) = (attribute("package"), attribute("classname")) else {
            return Err(format!("no case: {case}"));
        };
        if ["<failure", "<error", "<skipped"]
            .iter()
            .any(|mark| case.contains(mark))
        {
            failed.insert((section, name));
        }
    }
    Ok(failed)
}

/// A running server; killed and waited for when dropped.
struct Server {
    child: Child,
    port: String,
    _identity: Identity,
}

impl Server {
    /// Starts both tiers in one process.
    fn start(port: Port) -> Result<Self, String> {
        let identity = Identity::new();
        let scheme = if port.is_tls() { "https" } else { "http" };
        let (cert, key) = (identity.cert(), identity.key());
        let (cert, key) = (cert.display(), key.display());
        let mut child = Command::new(SERVER)
            .arg(format!("--listen-client-urls={scheme}://127.0.0.1:0"))
            .arg(format!("--listen-kube-urls={scheme}://127.0.0.1:0"))
            .args([
                "--backend=embedded",
                "--worker-threads=2",
                "--log-level=error",
            ])
            .args([format!("--cert-file={cert}"), format!("--key-file={key}")])
            .args([
                format!("--tls-cert-file={cert}"),
                format!("--tls-private-key-file={key}"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let mut this = Self {
            child,
            port: String::new(),
            _identity: identity,
        };
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let ready = ["ready etcd=", "ready kube="];
        let urls = ready.map(|ready| {
            let line = lines.find_map(|line| line.strip_prefix(ready).map(str::to_owned));
            line.ok_or("the server did not start")
        });
        let [etcd, kube] = urls;
        let url = if port.is_etcd() { etcd? } else { kube? };
        let (_, number) = url.rsplit_once(':').ok_or("no port in its URL")?;
        number.clone_into(&mut this.port);
        Ok(this)
    }

    /// Returns one of the server's memory metrics, bytes; an error if the server has exited.
    fn memory(
        &self,
        figure: impl Fn(procfs::process::Status) -> Option<u64>,
    ) -> Result<u64, String> {
        let process = i32::try_from(self.child.id()).map(Process::new);
        let process = process.map_err(|error| error.to_string())?;
        let status = process.and_then(|process| process.status());
        let kib = figure(status.map_err(|error| error.to_string())?);
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| "the server has ended".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have exited already; either way it must be reaped.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
