//! Certificate files that change while the server runs. The server reads them for each connection,
//! so no test needs to wait.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bench_server::etcd::server::EtcdTier;
use bench_server::flags::Flags;
use clap::Parser;
use tempfile::TempDir;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::client::{Answer, VERSIONS, config, get};
use test_support::identity::{Ca, Identity};

/// The files of a tier, laid out like a mounted Secret: all are reached through a symlink that is
/// replaced.
struct Mounted {
    folder: TempDir,
}

impl Mounted {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    /// Replaces the files by these, atomically.
    fn hold(&self, files: &[(&str, &Path)]) {
        let version = tempfile::tempdir_in(self.folder.path())
            .expect("a folder")
            .keep();
        for (name, from) in files {
            std::fs::copy(from, version.join(name)).expect("a file");
        }
        let next = self.folder.path().join("next");
        symlink(version, &next).expect("a symlink");
        std::fs::rename(next, self.folder.path().join("data")).expect("a symlink");
    }

    fn hold_pair(&self, cert: &Identity, key: &Identity) {
        self.hold(&[("cert.pem", &cert.cert()), ("key.pem", &key.key())]);
    }
}

async fn serving(mounted: &Mounted, more: &[String]) -> EtcdTier {
    let flags = [
        "bench-server".to_owned(),
        "--listen-client-urls=https://127.0.0.1:0".to_owned(),
        format!("--cert-file={}", mounted.path("cert.pem").display()),
        format!("--key-file={}", mounted.path("key.pem").display()),
    ];
    let flags = Flags::parse_from(flags.iter().chain(more));
    let tier = EtcdTier::start(&flags.etcd, &flags.common).await;
    tier.expect("a loopback port is free")
}

#[track_caller]
fn assert_shown(answer: &Answer, identity: &Identity) {
    let cert = CertificateDer::from_pem_file(identity.cert()).expect("a certificate");
    assert!(answer.server == cert.as_ref(), "another certificate");
}

/// Returns the numbers of successful and failed reloads in `/metrics`.
fn reloads(metrics: &Answer) -> [u64; 2] {
    ["success", "failure"].map(|result| {
        let name = format!("bench_server_tls_reloads_total{{result=\"{result}\"}} ");
        let value = metrics
            .body
            .lines()
            .find_map(|line| line.strip_prefix(&name));
        let value = value.unwrap_or_else(|| panic!("no {name}in {}", metrics.body));
        value.parse().expect("a count")
    })
}

#[tokio::test]
async fn a_changed_certificate_is_shown_and_sessions_begin_anew() {
    for versions in VERSIONS {
        let ca = Ca::new();
        let (first, second) = (ca.sign("first"), ca.sign("second"));
        let mounted = Mounted::new();
        mounted.hold_pair(&first, &first);
        let tier = serving(&mounted, &[]).await;
        let client = config(&[&ca.cert()], None, versions, &["http/1.1"]);
        let get = async |path| get(&client, &tier.urls[0], path).await.expect("served");

        let answer = get("/version").await;
        assert_shown(&answer, &first);
        assert_eq!(answer.handshake, HandshakeKind::Full);
        // This shows that the previous assertion could fail.
        assert_eq!(get("/version").await.handshake, HandshakeKind::Resumed);

        mounted.hold_pair(&second, &second);
        let answer = get("/version").await;
        assert_shown(&answer, &second);
        assert_eq!(answer.handshake, HandshakeKind::Full);
        assert_eq!(reloads(&get("/metrics").await), [1, 0]);
    }
}

#[tokio::test]
async fn what_cannot_be_used_leaves_what_was_there_and_is_counted_once() {
    let ca = Ca::new();
    let (first, second) = (ca.sign("first"), ca.sign("second"));
    let mounted = Mounted::new();
    mounted.hold_pair(&first, &first);
    let tier = serving(&mounted, &[]).await;
    let client = config(&[&ca.cert()], None, VERSIONS[1], &["h2"]);
    let get = async || {
        get(&client, &tier.urls[0], "/metrics")
            .await
            .expect("served")
    };

    mounted.hold_pair(&second, &first);
    for _ in 0..3 {
        let answer = get().await;
        assert_shown(&answer, &first);
        assert_eq!(reloads(&answer), [0, 1], "a pair that does not match");
    }
    mounted.hold(&[("cert.pem", &second.cert())]);
    for _ in 0..3 {
        let answer = get().await;
        assert_shown(&answer, &first);
        assert_eq!(reloads(&answer), [0, 2], "no key");
    }
    mounted.hold(&[("cert.pem", &second.cert()), ("key.pem", &second.cert())]);
    let answer = get().await;
    assert_shown(&answer, &first);
    assert_eq!(reloads(&answer), [0, 3], "a certificate for a key");
    mounted.hold_pair(&second, &second);
    let answer = get().await;
    assert_shown(&answer, &second);
    assert_eq!(reloads(&answer), [1, 3]);
}

#[tokio::test]
async fn a_changed_ca_holds_for_clients_that_were_served_before() {
    for versions in VERSIONS {
        let (serving_ca, old, new) = (Ca::new(), Ca::new(), Ca::new());
        let server = serving_ca.sign("server");
        let (before, after) = (old.sign("before"), new.sign("after"));
        let mounted = Mounted::new();
        let hold = |ca: &Ca| {
            let (cert, key) = (server.cert(), server.key());
            mounted.hold(&[
                ("cert.pem", &cert),
                ("key.pem", &key),
                ("ca.pem", &ca.cert()),
            ]);
        };
        hold(&old);
        let ca = format!("--trusted-ca-file={}", mounted.path("ca.pem").display());
        let tier = serving(&mounted, &[ca]).await;
        let of = |identity| config(&[&serving_ca.cert()], Some(identity), versions, &["h2"]);
        let (before, after) = (of(&before), of(&after));
        let url = &tier.urls[0];
        for _ in 0..2 {
            let answer = get(&before, url, "/version").await.expect("served");
            // In a resumed session, the server would not check the client's certificate.
            assert_eq!(answer.handshake, HandshakeKind::Full);
        }
        get(&after, url, "/version").await.expect_err("not yet");

        hold(&new);
        get(&before, url, "/version").await.expect_err("no longer");
        let answer = get(&after, url, "/metrics").await.expect("served");
        assert_eq!(reloads(&answer), [1, 0]);
    }
}
