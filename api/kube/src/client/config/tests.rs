use std::fs;

use super::*;

const TEXT: &str = r#"
apiVersion: v1
kind: Config
current-context: prod
preferences: {}
clusters:
- name: one
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority-data: Q0E=
- name: trusting
  cluster: {server: https://10.0.0.2, insecure-skip-tls-verify: true, tls-server-name: api.example.com}
- name: behind
  cluster: {server: https://10.0.0.3, proxy-url: http://proxy:3128}
- name: both
  cluster: {server: https://10.0.0.4, insecure-skip-tls-verify: true, certificate-authority-data: Q0E=}
contexts:
- name: prod
  context: {cluster: one, user: admin, namespace: default}
- name: cloud
  context: {cluster: one, user: cloud}
- name: trusting
  context: {cluster: trusting, user: admin}
- name: behind
  context: {cluster: behind, user: admin}
- name: both
  context: {cluster: both, user: admin}
- name: lost
  context: {cluster: two, user: admin}
- name: nobody
  context: {cluster: one, user: gone}
- name: half
  context: {cluster: one, user: half}
- name: other
  context: {cluster: one, user: other}
- name: old
  context: {cluster: one, user: old}
- name: older
  context: {cluster: one, user: older}
- name: silent
  context: {cluster: one, user: silent}
users:
- name: admin
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
- name: cloud
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: gcloud, args: null, provideClusterInfo: true}
- name: half
  user: {client-key-data: S0VZ}
- name: other
  user: {token: a, as: root}
- name: old
  user: {auth-provider: {name: gcp}}
- name: older
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: gcloud}
- name: silent
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: gcloud}
"#;

fn context(name: &str) -> Result<Context, String> {
    Context::parse(TEXT, name, Path::new("config")).map_err(|e| e.to_string())
}

#[test]
fn a_context_names_its_cluster_and_user() {
    for name in ["", "prod"] {
        let Context {
            server,
            credentials,
        } = context(name).expect("a context");
        assert_eq!(server, "https://10.0.0.1:6443");
        assert_eq!(credentials.ca.as_deref(), Some(&b"CA"[..]));
        let identity = credentials.identity.expect("a certificate and its key");
        assert_eq!(identity, (b"CERT".to_vec(), b"KEY".to_vec()));
    }
    let plugin = context("cloud").expect("a context").credentials.exec;
    assert!(plugin.is_some_and(|it| format!("{it:?}").contains("10.0.0.1")));
}

#[test]
fn what_is_missing_or_would_change_the_meaning_is_named() {
    for (name, says) in [
        ("dev", "no context `dev`"),
        ("lost", "no cluster `two`"),
        ("nobody", "no user `gone`"),
        ("both", "both insecure-skip-tls-verify"),
        ("half", "only one of client-certificate and client-key"),
        ("other", "impersonation"),
        ("old", "auth-provider"),
        ("older", "v1alpha1` is not supported"),
        ("silent", "interactiveMode is required"),
    ] {
        let error = context(name).expect_err(name);
        assert!(
            error.contains(says) && error.lines().count() == 1,
            "{error}"
        );
    }
    let broken = Context::parse("clusters: 3", "", Path::new("config"));
    assert!(broken.is_err());
    let error = Context::parse("contexts: null", "", Path::new("config"));
    let error = error.expect_err("it has no current context").to_string();
    assert!(error.contains("current-context"), "{error}");
}

#[test]
fn a_server_that_is_not_checked_is_warned_of() {
    let trusting = context("trusting").expect("a context");
    assert!(trusting.credentials.insecure);
    let name = trusting.credentials.server_name.as_deref();
    assert_eq!(name, Some("api.example.com"));
    let warning = trusting.warning().expect("nobody is checked");
    assert!(warning.contains("https://10.0.0.2"), "{warning}");
    assert_eq!(context("prod").expect("a context").warning(), None);
}

#[test]
fn a_cluster_names_its_proxy() {
    let behind = context("behind").expect("a context").credentials;
    assert_eq!(behind.proxy_url.as_deref(), Some("http://proxy:3128"));
    assert_eq!(
        context("prod").expect("a context").credentials.proxy_url,
        None
    );
}

#[test]
fn of_several_files_the_first_wins_and_each_has_its_own_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("sub")).expect("a folder");
    fs::write(path("ca.pem"), "FIRST").expect("a file");
    fs::write(path("sub/ca.pem"), "SECOND").expect("a file");
    let cluster = |name: &str, server: &str| {
        format!("{{name: {name}, cluster: {{server: {server}, certificate-authority: ca.pem}}}}")
    };
    let first = format!(
        "clusters: [{}]\nusers: [{{name: u, user: {{token: first}}}}]\ncurrent-context: ''",
        cluster("one", "https://one")
    );
    let second = format!(
        "clusters: [{}, {}]\nusers: [{{name: u, user: {{token: second}}}}]\ncurrent-context: b\n\
         contexts: [{{name: a, context: {{cluster: one, user: u}}}}, {{name: b, context: {{cluster: two, user: u}}}}]",
        cluster("one", "https://not-this"),
        cluster("two", "https://two")
    );
    fs::write(path("first"), first).expect("a file");
    fs::write(path("sub/second"), second).expect("a file");
    let listed = std::env::join_paths([
        path("gone"),
        path("first"),
        PathBuf::new(),
        path("sub/second"),
    ]);
    let paths = listed_paths(&listed.expect("paths without colons"));
    assert_eq!(paths.len(), 3, "an empty entry is none");
    let found = |name: &str| {
        let context = Context::from_files(&paths, name).expect("a context");
        let ca = context.credentials.ca.expect("a CA");
        (
            context.server,
            String::from_utf8(ca).expect("text"),
            context.credentials.token.expect("a token"),
        )
    };
    let texts = |server: &str, ca: &str| (server.to_owned(), ca.to_owned(), "first".to_owned());
    assert_eq!(found("a"), texts("https://one", "FIRST"));
    // The current context of the first file is empty, which counts as none.
    assert_eq!(found(""), texts("https://two", "SECOND"));
    let none = Context::from_files(&paths[..1], "").expect_err("it is not there");
    assert!(none.to_string().contains("gone: no such file"), "{none}");
}
