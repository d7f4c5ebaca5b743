//! Compares the responses to the client's pipelined calls, with its own framing and with the crate
//! `h2`, with those that tonic receives.

use std::collections::BTreeMap;

use etcd_api::client::config::ClientConfig;
use etcd_api::client::pipelined::{Completion, Framing, PipelinedConnection, Rpc};
use etcd_api::error::{Error, Refusal};
use etcd_api::proto::etcdserverpb::{PutRequest, PutResponse, RangeRequest, RangeResponse};
use prost::Message;

use crate::harness::{CURRENT, Target, cases};
use crate::request::{put, range};

cases![on CURRENT; calls_answer_as_tonic_is_answered, calls_fail_as_tonics_do];

async fn connect(t: &Target, framing: Framing) -> PipelinedConnection {
    let config = ClientConfig::new(&t.server.url).expect("the server's own URL");
    let calls = PipelinedConnection::connect_as(framing, &config, None)
        .await
        .expect("it accepts");
    assert_eq!(calls.framing(), framing, "nothing here is beyond it");
    calls
}

type Answers = BTreeMap<u64, Result<Vec<u8>, Error>>;

/// Waits for the responses to all outstanding calls; returns them by token.
async fn answers(calls: &mut PipelinedConnection) -> Answers {
    let mut answers = Answers::new();
    while calls.outstanding() > 0 {
        let mut note = |done: Completion<'_>| {
            answers.insert(done.token, done.response.map(<[u8]>::to_vec));
        };
        calls.drive(&mut note).await.expect("the server lives");
    }
    answers
}

/// Returns a value whose size ranges from 0 to more than a frame and a stream's initial window.
fn value(i: u64) -> Vec<u8> {
    vec![i as u8; [0, 10, 1_000, 20_000, 300_000][i as usize % 5]]
}

async fn calls_answer_as_tonic_is_answered(t: Target) {
    for framing in [Framing::Minimal, Framing::H2Crate] {
        let mut calls = connect(&t, framing).await;
        let first = t.revision().await;
        for i in 0..200 {
            let put = PutRequest {
                key: format!("/{framing:?}/{i:03}").into(),
                value: value(i).into(),
                ..PutRequest::default()
            };
            calls.send(Rpc::Put, &put, i).expect("alive");
        }
        let mut revisions: Vec<i64> = answers(&mut calls)
            .await
            .into_values()
            .map(|answer| {
                let answer = PutResponse::decode(&answer.expect("a put")[..]).expect("a message");
                answer.header.expect("a header").revision
            })
            .collect();
        revisions.sort_unstable();
        let expected: Vec<i64> = (1..=200).map(|i| first + i).collect();
        assert_eq!(revisions, expected, "each put is a revision of its own");

        let asked: Vec<RangeRequest> = (0..200)
            .map(|i| range(format!("/{framing:?}/{i:03}"), String::new()))
            .chain([
                range(format!("/{framing:?}/"), format!("/{framing:?}0")),
                range("missing", ""),
            ])
            .collect();
        for (token, request) in asked.iter().enumerate() {
            calls
                .send(Rpc::Range, request, token as u64)
                .expect("alive");
        }
        let answers = answers(&mut calls).await;
        assert_eq!(answers.len(), asked.len());
        for ((_, answer), request) in answers.into_iter().zip(asked) {
            let answer = RangeResponse::decode(&answer.expect("a range")[..]).expect("a message");
            assert_eq!(answer, t.range(request).await.expect("a range"));
        }
    }
}

async fn calls_fail_as_tonics_do(t: Target) {
    for framing in [Framing::Minimal, Framing::H2Crate] {
        let mut calls = connect(&t, framing).await;
        calls.send(Rpc::Put, &put("", "v"), 1).expect("alive");
        let future = RangeRequest {
            revision: 1_000,
            ..range("k", "")
        };
        calls.send(Rpc::Range, &future, 2).expect("alive");
        calls.send(Rpc::Put, &put("k", "v"), 3).expect("alive");
        let answers = answers(&mut calls).await;
        for (token, expected) in [(1, Refusal::EmptyKey), (2, Refusal::FutureRevision)] {
            match &answers[&token] {
                Err(Error::Refused(refusal)) => assert_eq!(*refusal, expected),
                other => panic!("{other:?} where {expected:?} was due"),
            }
        }
        assert!(answers[&3].is_ok(), "the connection goes on");
    }
}
