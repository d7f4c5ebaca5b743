//! Lists over HTTPS from bench-server: both versions of HTTP, with and without a trusted
//! certificate.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::program::{ended_with_json, loadgen};
use crate::support::served::Served;

const SCENARIO: &str = r#"
name = "https"
summary = "both versions of HTTP"
repeats = 2
first_chunk_streams = 3

[cases]
kube = [
    "consistent",
    "paged:7",
    { strategy = "consistent", http = "h2" },
    { strategy = "watch-list", media = "json", http = "h2" },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 60
namespaces = 3
nodes = 4
seed = 1
"#;

/// A folder with a certificate of this machine, its key, and a scenario.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate for an address");
        let files = Self(tempfile::tempdir().expect("a temporary folder"));
        fs::write(files.cert(), made.cert.pem()).expect("a file");
        fs::write(files.key(), made.signing_key.serialize_pem()).expect("a file");
        fs::write(files.path("https.toml"), SCENARIO).expect("a file");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cert(&self) -> PathBuf {
        self.path("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.path("key.pem")
    }

    /// Runs `loadgen`; returns exit code, `report.json` if there is one, and standard error.
    fn run(&self, url: &str, ca: &Path) -> (Option<i32>, Value, String) {
        let run = loadgen(self.0.path())
            .args(["run", "./https.toml", "--kube", url, "--seed-data"])
            .arg("--cacert")
            .arg(ca)
            .args(["--format", "json", "--pause", "0s"])
            .assert();
        let output = run.get_output();
        ended_with_json(output)
    }
}

#[test]
fn pods_are_loaded_and_listed() {
    let files = Files::new();
    let server = Served::kube_over_tls(&files.cert(), &files.key());
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let (code, report, log) = files.run(&server.url, &files.cert());
    assert_eq!(code, Some(0), "{log}");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 4, "{log}");
    for case in cases {
        assert_eq!(case["outcome"]["state"], "measured", "{case}");
        assert_eq!(case["verified"]["objects"], 60, "{case}");
    }
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_asked() {
    let (files, stranger) = (Files::new(), Files::new());
    let server = Served::kube_over_tls(&files.cert(), &files.key());
    let (code, _, log) = files.run(&server.url, &stranger.cert());
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("certificate"), "{log}");
}
