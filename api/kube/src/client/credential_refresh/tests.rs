use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::super::access::Credentials;
use super::super::config::Context;
use super::*;

/// Returns credentials of a plugin in `folder` that counts its runs and returns `token-N`, with the
/// expiry time `ends` or with none.
fn counting(folder: &Path, ends: Option<&str>) -> Credentials {
    let ends = ends.map_or_else(String::new, |ends| {
        format!(r#","expirationTimestamp":"{ends}""#)
    });
    let script = format!(
        "#!/bin/sh\necho >>\"$0.runs\"\nn=$(grep -c '' \"$0.runs\")\n\
         echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\
         \"status\":{{\"token\":\"token-'$n'\"{ends}}}}}'\n"
    );
    let draft = folder.join("draft");
    fs::write(&draft, script).expect("a file");
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).expect("ours");
    fs::rename(&draft, folder.join("plugin")).expect("one folder");
    let text = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n\
         clusters: [{name: c, cluster: {server: 'http://localhost:1'}}]\n\
         users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}}}]\n";
    let context = Context::parse(text, "", &folder.join("config"));
    context.expect("a context").credentials
}

fn renewed(credentials: &Credentials) -> Arc<RefreshedCredentials> {
    let plugin = credentials.exec.clone().expect("a plugin");
    let source = Source::Exec {
        plugin,
        trust: None,
    };
    Arc::new(
        RefreshedCredentials::new(source, ResolvedCredentials::default())
            .expect("nothing is run yet"),
    )
}

fn token(prepared: &ResolvedCredentials) -> &str {
    let value = prepared.authorization.as_ref().expect("a token");
    value.to_str().expect("text")
}

#[tokio::test]
async fn a_plugin_runs_once_for_all_until_its_credentials_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let renewed = renewed(&counting(folder.path(), None));
    assert!(!folder.path().join("plugin.runs").exists(), "nobody asked");
    let (one, other) = tokio::join!(renewed.current(), renewed.current());
    let (one, other) = (one.expect("a token"), other.expect("a token"));
    assert_eq!(
        (token(&one), token(&other)),
        ("Bearer token-1", "Bearer token-1")
    );
    // If new credentials are refused, the plugin does not run again at once.
    assert!(!renewed.refused(&one));
    renewed.held.lock().tried = Some(Instant::now() - TRIED_AGAIN_AFTER);
    assert!(renewed.refused(&one));
    let again = renewed.current().await.expect("a token");
    assert_eq!(token(&again), "Bearer token-2");
    // A request that was refused with the old credentials retries with the new ones.
    assert!(renewed.refused(&one));
    let same = renewed.current().await.expect("a token");
    assert_eq!(token(&same), "Bearer token-2");
}

#[tokio::test]
async fn credentials_that_have_run_out_are_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let renewed = renewed(&counting(folder.path(), Some("1970-01-01T00:00:00Z")));
    for run in 1..=3 {
        let prepared = renewed.current().await.expect("a token");
        assert_eq!(token(&prepared), format!("Bearer token-{run}"));
    }
}

#[tokio::test]
async fn credentials_that_soon_run_out_are_used_while_others_are_fetched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let renewed = renewed(&counting(folder.path(), Some("2999-01-01T00:00:00Z")));
    renewed.current().await.expect("a token");
    {
        let mut held = renewed.held.lock();
        held.ends = Some(SystemTime::now() + RENEWED_BEFORE / 2);
        held.tried = Some(Instant::now() - TRIED_AGAIN_AFTER);
    }
    let old = renewed.current().await.expect("a token");
    assert_eq!(token(&old), "Bearer token-1", "nobody waits for the plugin");
    // The lock is held until the renewal is done.
    drop(renewed.turn.lock().await);
    let new = renewed.current().await.expect("a token");
    assert_eq!(token(&new), "Bearer token-2");
}

#[tokio::test]
async fn a_token_s_file_is_read_again_and_one_that_is_gone_leaves_the_last() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("token");
    let missing = RefreshedCredentials::new(
        Source::TokenFile(path.clone()),
        ResolvedCredentials::default(),
    );
    assert!(missing.is_err());
    fs::write(&path, "one\n").expect("a file");
    let renewed = RefreshedCredentials::new(
        Source::TokenFile(path.clone()),
        ResolvedCredentials::default(),
    );
    let renewed = Arc::new(renewed.expect("a token"));
    let due = || {
        let mut held = renewed.held.lock();
        held.ends = Some(SystemTime::now());
        held.tried = Some(Instant::now() - TRIED_AGAIN_AFTER);
    };
    let now = async || token(&renewed.current().await.expect("a token")).to_owned();
    fs::write(&path, "two\n").expect("a file");
    assert_eq!(now().await, "Bearer one", "it is not due");
    due();
    now().await;
    drop(renewed.turn.lock().await);
    assert_eq!(now().await, "Bearer two");
    fs::remove_file(&path).expect("it is there");
    due();
    now().await;
    drop(renewed.turn.lock().await);
    assert_eq!(now().await, "Bearer two");
}

/// Serves connections one after the other, with 200 to requests that have this token and 401 to
/// others; returns the received tokens.
async fn api(
    listener: tokio::net::TcpListener,
    right: &'static str,
    requests: usize,
) -> Vec<String> {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let mut tokens = Vec::new();
    while tokens.len() < requests {
        let (socket, _) = listener.accept().await.expect("a client");
        let mut socket = BufReader::new(socket);
        let mut token = String::new();
        loop {
            let mut line = String::new();
            let read = socket.read_line(&mut line).await.expect("a head");
            if let Some(of) = line.strip_prefix("authorization: Bearer ") {
                token = of.trim().to_owned();
            }
            if read == 0 || line == "\r\n" {
                break;
            }
        }
        let status = if token == right {
            "200 OK"
        } else {
            "401 Unauthorized"
        };
        tokens.push(token);
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).await.expect("it reads");
    }
    tokens
}

#[tokio::test]
async fn a_request_that_is_refused_is_sent_once_more_with_new_credentials() {
    use crate::client::{Connection, KubeError, Options};
    let folder = tempfile::tempdir().expect("a temporary folder");
    let credentials = counting(folder.path(), None);
    let access = credentials.access().expect("nothing is run yet");
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let renewed = Arc::clone(access.renewed().expect("a plugin"));
    renewed.current().await.expect("a token");
    // Makes the credentials old enough to be renewed.
    renewed.held.lock().tried = Some(Instant::now() - TRIED_AGAIN_AFTER);
    let served = tokio::spawn(api(listener, "token-2", 3));
    let connection = Connection::new(&url, access, Options::default());
    let mut connection = connection.expect("a URL");
    connection
        .get("/", "text/plain")
        .await
        .expect("the second token is right");
    renewed.held.lock().prepared = Some(ResolvedCredentials {
        authorization: Some(bearer("token-0").expect("a token")),
        ..ResolvedCredentials::default()
    });
    // These credentials are new, so the request is not retried.
    let refused = connection.get("/", "text/plain").await;
    let is_refused = matches!(&refused, Err(KubeError::Refused { status, .. }) if *status == 401);
    assert!(is_refused, "401");
    let tokens = served.await.expect("it served");
    assert_eq!(tokens, ["token-1", "token-2", "token-0"]);
}
