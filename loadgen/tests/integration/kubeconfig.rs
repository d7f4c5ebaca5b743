//! Kubernetes APIs by kubeconfig, over HTTPS from bench-server: credential plugins, the system's
//! root certificates, other server names, several files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, CertifiedKey, KeyPair};
use tempfile::TempDir;

use crate::support::connect_proxy::ConnectProxy;
use crate::support::program::loadgen;
use crate::support::served::Served;

const SCENARIO: &str = r#"
name = "few"
summary = "a few pods"
repeats = 1

[cases]
kube = ["consistent", "paged:7"]

[[data_set]]
name = "pods"
kind = "pods"
objects = 20
namespaces = 2
nodes = 2
seed = 1
"#;

/// A folder with certificates, a kubeconfig and a scenario.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a temporary folder"));
        fs::write(files.path("few.toml"), SCENARIO).expect("a file");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a self-signed certificate for `name`, and its key.
    fn certificate(&self, file: &str, name: &str) -> CertifiedKey<KeyPair> {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let cert = params.self_signed(&key).expect("a certificate");
        fs::write(self.path(&format!("{file}.crt")), cert.pem()).expect("a file");
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).expect("a file");
        CertifiedKey {
            cert,
            signing_key: key,
        }
    }

    /// Starts a server with the certificate in this file.
    fn served(&self, file: &str, clients_ca: Option<&str>) -> Served {
        let [cert, key] = ["crt", "key"].map(|end| self.path(&format!("{file}.{end}")));
        let clients_ca = clients_ca.map(|name| self.path(name));
        Served::kube_of_clients(&cert, &key, clients_ca.as_deref())
    }

    /// Writes a kubeconfig with one context.
    fn kubeconfig(&self, cluster: &str, user: &str) {
        let text = format!(
            "current-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        );
        fs::write(self.path("config"), text).expect("a file");
    }

    /// Writes a credential plugin that counts its runs and prints this status.
    fn plugin(&self, status: &str) {
        let script = format!(
            "#!/bin/sh\necho >>\"$0.runs\"\ncat <<'END'\n{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\
             \"kind\":\"ExecCredential\",\"status\":{status}}}\nEND\n"
        );
        fs::write(self.path("plugin"), script).expect("a file");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("plugin"), executable).expect("ours");
    }

    fn runs_of_the_plugin(&self) -> usize {
        let runs = fs::read_to_string(self.path("plugin.runs"));
        runs.map_or(0, |runs| runs.lines().count())
    }

    /// Runs `loadgen`; returns exit code and standard error.
    fn run(&self, more: &[&str], roots: Option<&Path>) -> (Option<i32>, String) {
        let mut command = loadgen(self.0.path());
        command
            .env("KUBECONFIG", self.path("config"))
            .args(["run", "./few.toml", "--target", "kubeconfig:"])
            .args(["--seed-data", "--pause", "0s"])
            .args(more);
        if let Some(roots) = roots {
            command.env("SSL_CERT_FILE", roots);
        }
        let run = command.assert();
        let output = run.get_output();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), log)
    }
}

const PLUGIN: &str = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, \
     interactiveMode: Never, provideClusterInfo: true}";

#[test]
fn a_plugin_runs_once_for_a_run_and_its_certificate_lets_in() {
    let files = Files::new();
    files.certificate("server", "127.0.0.1");
    let [right, stranger] = ["client", "stranger"].map(|name| files.certificate(name, name));
    let server = files.served("server", Some("client.crt"));
    let cluster = format!(
        "server: '{}', certificate-authority: server.crt",
        server.url
    );
    files.kubeconfig(&cluster, PLUGIN);
    let returns = |made: &CertifiedKey<KeyPair>| {
        let status = serde_json::json!({
            "clientCertificateData": made.cert.pem(),
            "clientKeyData": made.signing_key.serialize_pem(),
        });
        files.plugin(&status.to_string());
    };
    returns(&right);
    let (code, log) = files.run(&[], None);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(files.runs_of_the_plugin(), 1, "{log}");
    returns(&stranger);
    let (code, log) = files.run(&[], None);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("connection to 127.0.0.1"), "{log}");
}

#[test]
fn a_plugin_that_fails_or_is_not_there_is_one_line_and_a_wrong_command() {
    let files = Files::new();
    let cluster = "server: 'http://127.0.0.1:1'";
    files.kubeconfig(cluster, PLUGIN);
    files.plugin(r#"{"token":""}"#);
    let (code, log) = files.run(&[], None);
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("neither a token nor a client certificate"),
        "{log}"
    );
    fs::remove_file(files.path("plugin")).expect("it is there");
    files.kubeconfig(
        cluster,
        &PLUGIN.replace("interactiveMode", "installHint: Get it., interactiveMode"),
    );
    let (code, log) = files.run(&[], None);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("it was not found: Get it."), "{log}");
}

#[test]
fn without_a_ca_those_of_the_system_vouch_for_a_server() {
    let files = Files::new();
    files.certificate("server", "127.0.0.1");
    files.certificate("other", "127.0.0.1");
    let server = files.served("server", None);
    files.kubeconfig(&format!("server: '{}'", server.url), "token: t");
    let (code, log) = files.run(&[], Some(&files.path("server.crt")));
    assert_eq!(code, Some(0), "{log}");
    let (code, log) = files.run(&[], Some(&files.path("other.crt")));
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("certificate"), "{log}");
}

#[test]
fn a_server_is_known_by_another_name_or_not_at_all() {
    let files = Files::new();
    files.certificate("server", "api.example.test");
    let server = files.served("server", None);
    let url = format!("server: '{}'", server.url);
    let ca = format!("{url}, certificate-authority: server.crt");
    for (cluster, code) in [
        (format!("{ca}, tls-server-name: api.example.test"), 0),
        (ca, 2),
        (format!("{url}, insecure-skip-tls-verify: true"), 0),
    ] {
        files.kubeconfig(&cluster, "token: t");
        let (ended, log) = files.run(&[], None);
        assert_eq!(ended, Some(code), "{cluster}: {log}");
        let is_warned = log.contains("insecure-skip-tls-verify: any server");
        assert_eq!(is_warned, cluster.contains("insecure"), "{log}");
    }
}

#[test]
fn an_api_is_reached_through_the_proxy_of_its_cluster() {
    let files = Files::new();
    files.certificate("server", "127.0.0.1");
    let server = files.served("server", None);
    // `me:secret` in base64.
    let proxy = ConnectProxy::start("Basic bWU6c2VjcmV0");
    let through = |proxy_url: &str| {
        let cluster = format!(
            "server: '{}', certificate-authority: server.crt, proxy-url: '{proxy_url}'",
            server.url
        );
        files.kubeconfig(&cluster, "token: t");
        files.run(&[], None)
    };
    let (code, log) = through(&format!("http://me:secret@{}", proxy.address));
    assert_eq!(code, Some(0), "{log}");
    let note = format!("through the proxy http://{}", proxy.address);
    assert!(log.contains(&note) && !log.contains("secret"), "{log}");
    let host = server.url.trim_start_matches("https://");
    assert!(
        proxy.hosts().iter().all(|asked| asked == host),
        "{:?}",
        proxy.hosts()
    );
    assert!(!proxy.hosts().is_empty(), "requests went past the proxy");

    let (code, log) = through(&format!("http://me:wrong@{}", proxy.address));
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("proxy authorization required"), "{log}");
    let (code, log) = through("socks5://127.0.0.1:1");
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("proxy socks5://127.0.0.1:1: "), "{log}");
}

#[test]
fn what_is_not_supported_is_refused_before_anything_is_sent() {
    let files = Files::new();
    for (cluster, user, says) in [
        (
            "server: 'http://127.0.0.1:1', proxy-url: 'ftp://127.0.0.1:2'",
            "token: t",
            "proxy-url: is not the URL of an http:// or socks5:// proxy",
        ),
        (
            "server: 'http://127.0.0.1:1'",
            "token: t, as: root",
            "impersonation",
        ),
    ] {
        files.kubeconfig(cluster, user);
        let (code, log) = files.run(&["--dry-run"], None);
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(says), "{log}");
    }
}
