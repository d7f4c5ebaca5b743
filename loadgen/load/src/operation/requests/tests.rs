//! Checks of responses to small requests.

use std::time::Instant;

use etcd_api::proto::etcdserverpb::{PutResponse, RangeResponse, ResponseHeader};
use etcd_api::proto::mvccpb::KeyValue;
use workloads::{DataSetSpec, Kind};

use super::*;

fn one_object() -> DataSet {
    DataSet::new(&DataSetSpec {
        name: "one".to_owned(),
        kind: Kind::Raw,
        objects: 1_u64.try_into().expect("an object"),
        object_size: 100_u64.try_into().ok(),
        object_sizes: None,
        namespaces: None,
        nodes: None,
        seed: 1,
    })
}

/// Returns the requests of a load on one object.
fn calls() -> EtcdRequests {
    EtcdRequests::new(SmallRequest::Get, RequestConfig::new(&one_object(), "/"))
}

/// Returns a request for the object, planned after the writes that are acknowledged so far.
fn planned(calls: &EtcdRequests, request: SmallRequest) -> PlannedRequest {
    match calls.operation(0, &mut OwnKeys::default()) {
        PlannedRequest::Object {
            object,
            at_least,
            n,
            ..
        } => PlannedRequest::Object {
            request,
            object,
            at_least,
            n,
        },
        other => other,
    }
}

fn checked(
    calls: &EtcdRequests,
    planned: PlannedRequest,
    message: &[u8],
) -> Result<Checked, CallError> {
    let done = Completion {
        token: 0,
        received: Instant::now(),
        response: Ok(message),
    };
    calls.check(planned, 0, done)
}

/// Returns the response with the object as written at this revision.
fn object_at(calls: &EtcdRequests, mod_revision: i64) -> Vec<u8> {
    let PutRequest { key, value, .. } = calls.objects[0].put.clone();
    let found = KeyValue {
        key,
        value,
        mod_revision,
        create_revision: 2,
        version: 1,
        ..KeyValue::default()
    };
    let response = RangeResponse {
        kvs: vec![found],
        count: 1,
        ..RangeResponse::default()
    };
    response.encode_to_vec()
}

/// Returns the response to a put that wrote at this revision.
fn put_at(revision: i64) -> Vec<u8> {
    let header = ResponseHeader {
        revision,
        ..ResponseHeader::default()
    };
    let response = PutResponse {
        header: Some(header),
        ..PutResponse::default()
    };
    response.encode_to_vec()
}

#[test]
fn a_read_older_than_a_write_that_was_acknowledged_before_it_is_wrong() {
    let calls = calls();
    let before = planned(&calls, SmallRequest::Get);
    let put = planned(&calls, SmallRequest::Put);
    checked(&calls, put, &put_at(9)).expect("a put");
    // The read was outstanding during the write: either is right.
    for revision in [5, 9] {
        checked(&calls, before, &object_at(&calls, revision)).expect("a read");
    }
    let after = planned(&calls, SmallRequest::Get);
    checked(&calls, after, &object_at(&calls, 10)).expect("somebody's later write");
    let stale = checked(&calls, after, &object_at(&calls, 5)).expect_err("an old read");
    assert!(matches!(stale, CallError::OldRead), "{stale}");
}

#[test]
fn a_read_older_than_one_that_ended_before_it_is_wrong() {
    let calls = calls();
    let first = planned(&calls, SmallRequest::Get);
    checked(&calls, first, &object_at(&calls, 10)).expect("a read");
    let later = planned(&calls, SmallRequest::Get);
    let stale = checked(&calls, later, &object_at(&calls, 5)).expect_err("an old read");
    assert!(matches!(stale, CallError::OldRead), "{stale}");
    checked(&calls, first, &object_at(&calls, 5)).expect("under way before");
}

#[test]
fn what_one_load_writes_another_must_read() {
    let data = one_object();
    let shared = Arc::new(Revisions::new(&data));
    let load = |request: SmallRequest| {
        let about = RequestConfig {
            revisions: Some(&shared),
            ..RequestConfig::new(&data, "/")
        };
        EtcdRequests::new(request, about)
    };
    let (writer, reader) = (load(SmallRequest::Put), load(SmallRequest::Get));
    let put = planned(&writer, SmallRequest::Put);
    checked(&writer, put, &put_at(9)).expect("a put");
    let read = planned(&reader, SmallRequest::Get);
    let stale = checked(&reader, read, &object_at(&reader, 5)).expect_err("an old read");
    assert!(matches!(stale, CallError::OldRead), "{stale}");
    checked(&reader, read, &object_at(&reader, 9)).expect("the write");
}

#[test]
fn a_serializable_read_may_be_old() {
    let calls = calls();
    let put = planned(&calls, SmallRequest::Put);
    checked(&calls, put, &put_at(9)).expect("a put");
    let read = planned(&calls, SmallRequest::GetSerializable);
    checked(&calls, read, &object_at(&calls, 5)).expect("a member that is behind");
}
