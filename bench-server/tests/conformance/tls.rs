//! The clients that are served over TLS, and the certificates that the server presents.

use http::Version;

use crate::client::{OFFERS, VERSIONS, assert_refuses_tls_1_1, config, get};
use crate::harness::{ONE_ENCODING, Target, cases};
use crate::peer::Server;
use test_support::identity::{Ca, Identity};

cases![on ONE_ENCODING;
    client_certificates, versions_of_http_and_tls, a_new_certificate_is_shown_at_once,
    a_pair_that_does_not_match, a_ca_that_changes,
];

/// Starts a server of the same kind that presents `identity`, with further flags.
fn secure(t: &Target, identity: &Identity, more: &[String]) -> Server {
    let cert = format!("--cert-file={}", identity.cert().display());
    let key = format!("--key-file={}", identity.key().display());
    let mut flags = vec![&*cert, &*key];
    flags.extend(more.iter().map(String::as_str));
    Server::start_at(t.peer, "https://127.0.0.1:0", &flags).expect("it starts")
}

async fn client_certificates(t: Target) {
    let (serving, own, other) = (Ca::new(), Ca::new(), Ca::new());
    let server = serving.sign("server");
    let ca = format!("--trusted-ca-file={}", own.cert().display());
    let required = "--client-cert-auth".to_owned();
    let (own, other) = (own.sign("own"), other.sign("other"));
    // Flags, and whether a client is served without a certificate, with one of the CA, and with
    // another one.
    let table = [
        (vec![], [true, true, true]),
        (vec![ca.clone()], [false, true, false]),
        (vec![ca, required], [false, true, false]),
    ];
    for (flags, outcomes) in table {
        let server = secure(&t, &server, &flags);
        for (shown, served) in [None, Some(&own), Some(&other)].into_iter().zip(outcomes) {
            for versions in VERSIONS {
                let client = config(&[&serving.cert()], shown, versions, &["h2"]);
                let answer = get(&client, &server.url, "/version").await;
                let what = format!("{flags:?}, {shown:?}: {answer:?}");
                assert_eq!(answer.is_ok(), served, "{what}");
            }
        }
    }
}

async fn versions_of_http_and_tls(t: Target) {
    let serving = Ca::new();
    let identity = serving.sign("server");
    let server = secure(&t, &identity, &[]);
    for versions in VERSIONS {
        for offer in OFFERS {
            let client = config(&[&serving.cert()], None, versions, offer);
            let answer = get(&client, &server.url, "/version").await;
            let answer = answer.unwrap_or_else(|error| panic!("{offer:?}: {error}"));
            let http = match offer.contains(&"h2") {
                true => Version::HTTP_2,
                false => Version::HTTP_11,
            };
            assert_eq!(
                (answer.code.as_u16(), answer.http),
                (200, http),
                "{offer:?}"
            );
            assert_eq!(answer.tls, versions[0].version);
        }
    }
    assert_refuses_tls_1_1(&server.url).await;
}

async fn a_new_certificate_is_shown_at_once(t: Target) {
    let serving = Ca::new();
    let (first, second) = (serving.sign("first"), serving.sign("second"));
    let server = secure(&t, &first, &[]);
    let client = || config(&[&serving.cert()], None, VERSIONS[1], &["h2"]);
    let before = get(&client(), &server.url, "/version")
        .await
        .expect("served");
    std::fs::copy(second.cert(), first.cert()).expect("a file");
    std::fs::copy(second.key(), first.key()).expect("a file");
    let after = get(&client(), &server.url, "/version")
        .await
        .expect("served");
    assert!(
        before.server != after.server,
        "the old certificate is shown"
    );
}

/// etcd refuses every client in this case; bench-server keeps the last valid pair.
async fn a_pair_that_does_not_match(t: Target) {
    let serving = Ca::new();
    let (first, second) = (serving.sign("first"), serving.sign("second"));
    let server = secure(&t, &first, &[]);
    let client = || config(&[&serving.cert()], None, VERSIONS[1], &["h2"]);
    let before = get(&client(), &server.url, "/version")
        .await
        .expect("served");
    std::fs::copy(second.cert(), first.cert()).expect("a file");
    let after = get(&client(), &server.url, "/version").await;
    match t.peer.is_bench() {
        true => assert!(before.server == after.expect("served").server),
        false => drop(after.expect_err("no certificate that could be shown")),
    }
}

/// etcd reads the CA once; bench-server reads it again when it changes.
async fn a_ca_that_changes(t: Target) {
    let (serving, old, new) = (Ca::new(), Ca::new(), Ca::new());
    let ca = format!("--trusted-ca-file={}", old.cert().display());
    let identity = serving.sign("server");
    let server = secure(&t, &identity, &[ca]);
    let (before, after) = (old.sign("before"), new.sign("after"));
    let client = |identity| config(&[&serving.cert()], Some(identity), VERSIONS[1], &["h2"]);
    std::fs::copy(new.cert(), old.cert()).expect("a file");
    let (known, unknown) = match t.peer.is_bench() {
        true => (after, before),
        false => (before, after),
    };
    let url = &server.url;
    get(&client(&known), url, "/version").await.expect("served");
    get(&client(&unknown), url, "/version")
        .await
        .expect_err("refused");
}
