//! The pods that benches list.

use bench_server::store::Store;
use etcd_api::proto::etcdserverpb::PutRequest;
use workloads::{DataSet, Scenario};

/// Returns the data set of `pods-150k` with this number of objects.
pub(crate) fn pods(objects: u64) -> DataSet {
    let mut scenario = Scenario::named("pods-150k").expect("a built-in scenario");
    let mut spec = scenario.data_sets.remove(0);
    spec.objects = objects.try_into().expect("some objects");
    DataSet::new(&spec)
}

/// Writes pod `i`.
pub(crate) fn put(store: &Store, pods: &DataSet, i: u64) {
    let put = PutRequest {
        key: [b"/registry/", &pods.key(i)[..]].concat().into(),
        value: pods.value(i),
        ..PutRequest::default()
    };
    store.put(&put).expect("no quota is set");
}
