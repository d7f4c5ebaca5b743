use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

/// Returns a plugin that runs this script, and its folder.
fn plugin(script: &str) -> (TempDir, ExecPlugin) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("plugin");
    // Written under another name: a file that is open for writing cannot be executed.
    let draft = folder.path().join("draft");
    fs::write(&draft, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).expect("ours");
    fs::rename(&draft, &path).expect("one folder");
    let plugin = named("./plugin", "interactiveMode: IfAvailable");
    let plugin = plugin.checked(folder.path()).expect("it is right");
    (folder, plugin)
}

fn named(command: &str, more: &str) -> ExecPlugin {
    let text = format!(
        "apiVersion: client.authentication.k8s.io/v1\ncommand: {command}\nargs: [get-token, --cluster, one]\n\
         env: [{{name: REGION, value: north}}]\n{more}\n"
    );
    serde_saphyr::from_str(&text).expect("a plugin")
}

/// Returns the script of a plugin that prints this status.
fn prints(status: &str) -> String {
    format!(
        r#"echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'"#
    )
}

fn error_of(script: &str) -> String {
    let (_folder, plugin) = plugin(script);
    let error = plugin.run_in(false, Duration::from_secs(20));
    let error = error.expect_err(script).to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn arguments_and_variables_reach_it_and_what_it_returns_is_read() {
    let script = format!(
        "test \"$*\" = 'get-token --cluster one' && test \"$REGION\" = north || exit 7\n{}",
        prints(r#"{"token":"secret","expirationTimestamp":"1970-01-01T00:00:10.5Z"}"#)
    );
    let (_folder, plugin) = plugin(&script);
    let issued = plugin
        .run_in(false, Duration::from_secs(20))
        .expect("a token");
    assert_eq!(issued.token.as_deref(), Some("secret"));
    let ends = SystemTime::UNIX_EPOCH + Duration::from_millis(10_500);
    assert_eq!((issued.ends, issued.identity), (Some(ends), None));
    let (_folder, plugin) = self::plugin(&prints(
        r#"{"clientCertificateData":"CERT","clientKeyData":"KEY"}"#,
    ));
    let issued = plugin
        .run_in(false, Duration::from_secs(20))
        .expect("a certificate");
    assert_eq!(issued.identity, Some((b"CERT".to_vec(), b"KEY".to_vec())));
    assert_eq!((issued.ends, issued.token), (None, None));
}

#[test]
fn it_is_told_about_the_cluster_only_where_it_wants_that() {
    let script = "printf %s \"$KUBERNETES_EXEC_INFO\" >\"$0.info\"\n";
    let script = format!("{script}{}", prints(r#"{"token":"t"}"#));
    let (folder, plugin) = plugin(&script);
    let told = |plugin: ExecPlugin| -> Value {
        let plugin = plugin.about(|| json!({"server": "https://one"}));
        plugin
            .run_in(false, Duration::from_secs(20))
            .expect("a token");
        let info = fs::read(folder.path().join("plugin.info")).expect("it was run");
        serde_json::from_slice(&info).expect("JSON")
    };
    let silent = told(plugin.clone());
    assert_eq!(
        silent,
        json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "spec": {"interactive": false},
        })
    );
    let curious = ExecPlugin {
        provide_cluster_info: true,
        ..plugin
    };
    assert_eq!(told(curious)["spec"]["cluster"]["server"], "https://one");
}

#[test]
fn one_that_is_not_there_says_how_to_get_it() {
    let hint = "installHint: |\n  Install it\n  from there.\ninteractiveMode: Never";
    let plugin = named("no-such-plugin-of-ours", hint).checked(Path::new("/"));
    let error = plugin
        .expect("it is right")
        .run()
        .expect_err("it is not there");
    assert_eq!(
        error.to_string(),
        "credential plugin `no-such-plugin-of-ours`: it was not found: Install it from there."
    );
}

#[test]
fn one_that_fails_or_hangs_is_an_error_in_one_line() {
    let error = error_of("exit 3");
    assert!(error.ends_with("it ended with exit status: 3"), "{error}");
    let (_folder, plugin) = plugin("exec sleep 60");
    let late = plugin.run_in(false, Duration::from_millis(50));
    let late = late.expect_err("it does not end").to_string();
    assert!(late.ends_with("it did not end within 0.05 s"), "{late}");
    let always = named("true", "interactiveMode: Always");
    let always = always.run_in(false, Duration::from_secs(20));
    let always = always.expect_err("there is nobody").to_string();
    assert!(always.contains("no terminal"), "{always}");
}

#[test]
fn what_is_no_credential_is_refused_and_never_repeated() {
    let wrong = [
        ("echo my-secret", "it printed no ExecCredential (line 1"),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"my-secret"}}'"#,
            "v1beta1, and not ExecCredential of client.authentication.k8s.io/v1",
        ),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}'"#,
            "no status",
        ),
    ];
    for (script, says) in wrong {
        let error = error_of(script);
        assert!(
            error.contains(says) && !error.contains("my-secret"),
            "{error}"
        );
    }
    for (status, says) in [
        ("{}", "neither a token nor a client certificate"),
        (
            r#"{"token":"t","clientKeyData":"my-secret"}"#,
            "only one of",
        ),
        (
            r#"{"token":"my-secret","expirationTimestamp":"soon"}"#,
            "RFC 3339",
        ),
    ] {
        let error = error_of(&prints(status));
        assert!(
            error.contains(says) && !error.contains("my-secret"),
            "{error}"
        );
    }
    let error = error_of("head -c 2000000 /dev/zero");
    assert!(error.contains("more than 1048576 bytes"), "{error}");
}
