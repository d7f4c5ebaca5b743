//! The etcd tier over TLS, with each client of this project, and the clients that it refuses.

use bench_server::etcd::server::EtcdTier;
use bench_server::flags::Flags;
use clap::Parser;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::client::list_validator::Object;
use etcd_api::client::pipelined::{Completion, PipelinedConnection, Rpc, parse_put_response};
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::error::Error;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};

use test_support::identity::Identity;

/// Starts a tier that presents `identity`; returns it and the configuration of a client that trusts
/// it.
async fn serving(identity: &Identity, more: &[String]) -> (EtcdTier, ClientConfig) {
    let flags = [
        "bench-server".to_owned(),
        "--listen-client-urls=https://127.0.0.1:0".to_owned(),
        format!("--cert-file={}", identity.cert().display()),
        format!("--key-file={}", identity.key().display()),
    ];
    let flags = Flags::parse_from(flags.iter().chain(more));
    let tier = EtcdTier::start(&flags.etcd, &flags.common).await;
    let tier = tier.expect("a loopback port is free");
    assert!(tier.urls[0].starts_with("https://"), "{:?}", tier.urls);
    let mut config = ClientConfig::new(&tier.urls[0]).expect("the tier's own URL");
    config.tls.ca = Some(identity.cert());
    (tier, config)
}

fn every_key() -> RangeRequest {
    RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..Default::default()
    }
}

/// Sizes of the objects. The largest exceeds a frame, a TLS record and the write buffers of both
/// sides.
const SIZES: [usize; 3] = [10, 5_000, 200_000];
const OBJECTS: usize = 30;

#[tokio::test]
async fn what_is_put_over_tls_is_listed_over_tls() {
    let identity = Identity::new();
    let (_tier, config) = serving(&identity, &[]).await;
    let value = |i: usize| vec![i as u8; SIZES[i % SIZES.len()]];
    let mut calls = PipelinedConnection::connect(&config, None)
        .await
        .expect("TLS");
    for i in 0..OBJECTS {
        let put = PutRequest {
            key: format!("/{i:04}").into(),
            value: value(i).into(),
            ..Default::default()
        };
        calls.send(Rpc::Put, &put, i as u64).expect("it lives");
    }
    let mut done = 0;
    while calls.outstanding() > 0 {
        let mut note = |call: Completion<'_>| {
            let message = call.response.expect("a put");
            assert!(parse_put_response(message).is_some_and(|revision| revision > 1));
            done += 1;
        };
        calls.drive(&mut note).await.expect("it lives");
    }
    assert_eq!(done, OBJECTS);

    let lists = RawConnection::connect(&config, None).await.expect("TLS");
    for rpc in [ListRpc::RangeStream, ListRpc::Range] {
        let mut seen = 0;
        let mut visit = |object: Object<'_>| {
            assert!(object.value == value(seen), "object {seen}");
            seen += 1;
        };
        let walked = lists.validate(rpc, &every_key(), &mut visit, || {}).await;
        assert_eq!(walked.expect("a whole list").objects, OBJECTS as u64);
    }

    let client = Client::connect(config).await.expect("TLS");
    let answer = client.kv().range(every_key()).await.expect("a list");
    assert_eq!(answer.into_inner().kvs.len(), OBJECTS);
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_spoken_to() {
    let identity = Identity::new();
    let (_tier, mut config) = serving(&identity, &[]).await;
    let stranger = Identity::new();
    config.tls.ca = Some(stranger.cert());
    let refused = RawConnection::connect(&config, None).await.map(drop);
    assert!(
        matches!(refused, Err(Error::Unreachable { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn where_clients_need_a_certificate_only_the_right_one_is_let_in() {
    let (identity, own, other) = (Identity::new(), Identity::new(), Identity::new());
    let ca = format!("--trusted-ca-file={}", own.cert().display());
    // As with etcd, a CA alone makes the server require client certificates.
    for demand in [&[ca.clone()][..], &[ca, "--client-cert-auth".to_owned()]] {
        let (_tier, config) = serving(&identity, demand).await;
        for (shown, welcome) in [(None, false), (Some(&other), false), (Some(&own), true)] {
            let mut config = config.clone();
            config.tls.cert = shown.map(Identity::cert);
            config.tls.key = shown.map(Identity::key);
            // With TLS 1.3, a client receives the refusal at its first read.
            let answered = async {
                let lists = RawConnection::connect(&config, None).await?;
                lists.read_unchecked(ListRpc::Range, &every_key()).await
            };
            assert_eq!(answered.await.is_ok(), welcome, "{demand:?}");
        }
    }
}
