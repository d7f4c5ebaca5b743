//! The Kubernetes tier over HTTPS, in front of an etcd tier.

use bench_server::etcd::server::EtcdTier;
use bench_server::flags::Flags;
use bench_server::kube::server::KubeTier;
use clap::Parser;
use http::{StatusCode, Version};

use crate::client::{OFFERS, VERSIONS, assert_refuses_tls_1_1, config, get};
use test_support::identity::{Ca, Identity};

/// Starts both tiers, the Kubernetes tier with these flags.
async fn serving(more: &[String]) -> Result<(EtcdTier, KubeTier), String> {
    let flags = Flags::parse_from(["bench-server", "--listen-client-urls=http://127.0.0.1:0"]);
    let etcd = EtcdTier::start(&flags.etcd, &flags.common).await;
    let etcd = etcd.expect("a loopback port is free");
    let flags = [
        "bench-server".to_owned(),
        format!("--etcd-servers={}", etcd.urls[0]),
        "--listen-kube-urls=https://127.0.0.1:0".to_owned(),
    ];
    let flags = Flags::parse_from(flags.iter().chain(more));
    let kube = KubeTier::start(&flags.kube, &flags.common).await;
    let kube = kube.map_err(|error| error.to_string())?;
    assert!(kube.urls[0].starts_with("https://"), "{:?}", kube.urls);
    Ok((etcd, kube))
}

fn pair(server: &Identity) -> Vec<String> {
    vec![
        format!("--tls-cert-file={}", server.cert().display()),
        format!("--tls-private-key-file={}", server.key().display()),
    ]
}

#[tokio::test]
async fn each_version_of_http_and_tls_is_served() {
    let ca = Ca::new();
    let server = ca.sign("server");
    let (_etcd, kube) = serving(&pair(&server)).await.expect("starts");
    for versions in VERSIONS {
        for offer in OFFERS {
            let client = config(&[&ca.cert()], None, versions, offer);
            let answer = get(&client, &kube.urls[0], "/version").await;
            let answer = answer.expect("served");
            assert_eq!(answer.code, StatusCode::OK);
            assert_eq!(answer.tls, versions[0].version);
            // The server's preference decides: HTTP/2 if both are offered.
            let (alpn, http) = match offer {
                [] => (None, Version::HTTP_11),
                offer if offer.contains(&"h2") => (Some("h2"), Version::HTTP_2),
                _ => (Some("http/1.1"), Version::HTTP_11),
            };
            assert_eq!((answer.alpn.as_deref(), answer.http), (alpn, http));
        }
    }
    assert_refuses_tls_1_1(&kube.urls[0]).await;
}

#[tokio::test]
async fn with_a_ca_certificates_are_asked_for_and_only_bad_ones_refused() {
    let (serving_ca, own, other) = (Ca::new(), Ca::new(), Ca::new());
    let server = serving_ca.sign("server");
    let mut flags = pair(&server);
    flags.push(format!("--client-ca-file={}", own.cert().display()));
    let (_etcd, kube) = serving(&flags).await.expect("starts");
    let (own, other) = (own.sign("own"), other.sign("other"));
    for (shown, served) in [(None, true), (Some(&own), true), (Some(&other), false)] {
        for versions in VERSIONS {
            let client = config(&[&serving_ca.cert()], shown, versions, &["h2"]);
            let answer = get(&client, &kube.urls[0], "/version").await;
            assert_eq!(answer.is_ok(), served, "{shown:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_missing_file_is_told_by_its_flag() {
    let server = Identity::new();
    let pair = pair(&server);
    for (flags, told) in [
        (&pair[1..], "an https:// listen URL needs --tls-cert-file"),
        (
            &pair[..1],
            "an https:// listen URL needs --tls-private-key-file",
        ),
    ] {
        let error = serving(flags)
            .await
            .map(drop)
            .expect_err("a flag is missing");
        assert_eq!(error, told);
    }
}
