//! Tests of leases, with a clock that the tests advance.

use etcd_api::proto::etcdserverpb::PutRequest;

use super::*;
use crate::{Config, Record};

fn put(store: &Store, key: &str, lease: i64) -> Result<(), Refusal> {
    let request = PutRequest {
        key: key.to_owned().into(),
        lease,
        ..Default::default()
    };
    store.put(&request).map(|_| ())
}

fn store_with_lease(ttl_s: i64) -> (Store, Instant) {
    let (store, now) = (Store::new(Config::default()), Instant::now());
    let granted = store.lease_grant(7, ttl_s, now).expect("a grant");
    assert_eq!((granted.id, granted.ttl), (7, ttl_s.max(MIN_TTL_S)));
    (store, now)
}

fn keys(store: &Store, now: Instant) -> Vec<Box<[u8]>> {
    let left = store.lease_time_to_live(7, true, now);
    left.expect("a lease that is alive").keys
}

#[test]
fn grants_raise_short_ttls_refuse_long_ones_and_choose_positive_ids() {
    let (store, now) = store_with_lease(-5);
    assert_eq!(
        store.lease_grant(7, 10, now),
        Err(Refusal::LeaseExists),
        "an id is taken once"
    );
    let too_long = store.lease_grant(8, MAX_TTL_S + 1, now);
    assert_eq!(too_long, Err(Refusal::LeaseTtlTooLarge));
    let chosen = store.lease_grant(0, 10, now).expect("a grant").id;
    assert!(chosen > 0);
    store
        .lease_grant(-1, MAX_TTL_S, now)
        .expect("negative ids are allowed");
    assert_eq!(
        store.leases(),
        [7, chosen, -1],
        "in the order that they are due"
    );
}

#[test]
fn an_expired_lease_takes_its_keys_along_in_one_revision() {
    let (store, now) = store_with_lease(10);
    for key in ["b", "a", "c"] {
        put(&store, key, 7).expect("a put");
    }
    put(&store, "c", 0).expect("a put that detaches");
    put(&store, "d", 0).expect("a put without a lease");
    assert_eq!(keys(&store, now), [(*b"a").into(), Box::from(*b"b")]);
    let just_before = now + Duration::from_millis(9_999);
    assert_eq!(store.lease_expire(just_before), 0);
    let due = now + Duration::from_secs(10);
    let left = store.lease_time_to_live(7, true, due);
    let left = left.expect("a lease that is due, and not revoked");
    assert_eq!((left.remaining_s, left.keys.len()), (0, 2));
    let late = store.lease_time_to_live(7, false, due + Duration::from_millis(1_500));
    assert_eq!(late.map(|left| left.remaining_s), Some(-1));
    let before = store.revision();
    assert_eq!(store.lease_expire(due), 1);
    assert_eq!(store.revision(), before + 1);
    let left = store
        .snapshot()
        .cursor(etcd_api::keys::KeyRange::From(b"a"));
    let left: Vec<Vec<u8>> = left.map(|record: Record| record.key().to_vec()).collect();
    assert_eq!(left, [b"c".to_vec(), b"d".to_vec()]);
    assert_eq!(store.lease_time_to_live(7, false, due), None);
    assert_eq!(put(&store, "e", 7), Err(Refusal::LeaseNotFound));
}

#[test]
fn a_keep_alive_that_is_too_late_revokes_the_lease() {
    let (store, now) = store_with_lease(10);
    put(&store, "a", 7).expect("a put");
    let due = now + Duration::from_secs(10);
    assert_eq!(store.lease_keep_alive(7, due), None);
    assert!(store.snapshot().get(b"a").is_none(), "its key is gone");
    assert_eq!(store.lease_time_to_live(7, false, due), None);
    assert_eq!(store.lease_expire(due), 0, "nothing is left to revoke");
}

#[test]
fn keeping_alive_starts_the_time_anew() {
    let (store, now) = store_with_lease(10);
    let later = now + Duration::from_secs(9);
    assert_eq!(store.lease_keep_alive(7, later), Some(10));
    let left = store.lease_time_to_live(7, false, later + Duration::from_millis(1));
    let left = left.expect("a lease that is alive");
    assert_eq!(
        (left.remaining_s, left.granted_s),
        (9, 10),
        "whole seconds, floored"
    );
    assert_eq!(store.lease_expire(now + Duration::from_secs(18)), 0);
    assert_eq!(store.lease_expire(now + Duration::from_secs(19)), 1);
}

#[test]
fn a_revoke_without_keys_makes_no_revision_and_a_second_one_finds_nothing() {
    let (store, _) = store_with_lease(10);
    assert_eq!(store.lease_revoke(7), Ok(1));
    assert_eq!(store.lease_revoke(7), Err(Refusal::LeaseNotFound));
}

#[test]
fn a_key_moves_to_the_lease_of_its_last_put_and_ignore_lease_keeps_it() {
    let (store, now) = store_with_lease(10);
    store.lease_grant(8, 10, now).expect("a grant");
    put(&store, "a", 7).expect("a put");
    put(&store, "b", 7).expect("a put");
    put(&store, "a", 8).expect("a put");
    let keep = PutRequest {
        key: "b".into(),
        value: "new".into(),
        ignore_lease: true,
        ..Default::default()
    };
    store.put(&keep).expect("a put");
    assert_eq!(keys(&store, now), [Box::from(*b"b")]);
    store.lease_revoke(8).expect("a revoke");
    assert!(store.snapshot().get(b"a").is_none());
}

#[test]
fn an_expiry_is_an_event() {
    let (store, now) = store_with_lease(2);
    put(&store, "a", 7).expect("a put");
    let stream = store.watch();
    stream.create(crate::watch_hub::WatchSpec {
        key: b"a".to_vec(),
        prev_kv: true,
        ..Default::default()
    });
    store.lease_expire(now + Duration::from_secs(2));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut notices = Vec::new();
    while let std::task::Poll::Ready(notice) = stream.poll_next(&mut context) {
        notices.push(notice);
    }
    let Some(crate::watch_hub::Notice::Events(delivery)) = notices.get(1) else {
        panic!("{notices:?} has no event");
    };
    let (event, prev) = delivery.events().next().expect("one event");
    assert!(event.record.is_tombstone());
    assert_eq!(prev.map(Record::lease), Some(7));
}

#[test]
fn ids_of_one_start_are_not_those_of_the_next() {
    let fresh = || {
        let store = Store::new(Config::default());
        let granted = store.lease_grant(0, 60, Instant::now()).expect("a lease");
        granted.id
    };
    assert_ne!(fresh(), fresh());
}
