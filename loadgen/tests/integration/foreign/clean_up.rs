//! The data that a run has written to an existing endpoint is deleted, even if the endpoint fails
//! or refuses requests.

use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use etcd_api::client::config::ClientConfig;
use loadgen::progress::{Counted, Progress};
use loadgen::seed::etcd::ONE_BY_ONE;
use loadgen::seed::{NotUnseeded, SeededSlices, fill_log, seed, unseed};
use workloads::{DataSet, DataSetSpec, Kind};

use crate::support::fake_etcd::{FakeEtcd, Fault};
use crate::support::program::loadgen;

const ROOT: &str = "/loadgen/test/";

/// A time longer than the delay of [`Fault::LatePuts`].
const LATER: Duration = Duration::from_millis(800);

fn data() -> Arc<DataSet> {
    Arc::new(DataSet::new(&DataSetSpec {
        name: "test".to_owned(),
        kind: Kind::Raw,
        objects: 300.try_into().expect("some"),
        object_size: 100.try_into().ok(),
        object_sizes: None,
        namespaces: None,
        nodes: None,
        seed: 1,
    }))
}

/// Seeds `etcd`, calls `meanwhile`, and deletes the data again. Returns the result of the deletion,
/// and the number of objects that it was to delete.
async fn seed_and_unseed(
    etcd: &FakeEtcd,
    meanwhile: impl FnOnce(),
) -> (Result<u64, NotUnseeded>, u64) {
    let config = ClientConfig::new(&etcd.url()).expect("a URL");
    let (data, written) = (data(), Arc::new(SeededSlices::default()));
    let phase = Progress::silent().phase("seeding", data.len(), Counted::Objects);
    let seeded = seed(&config, &data, ROOT, &written, &phase).await;
    seeded.expect("it takes all");
    meanwhile();
    let slices = written.take();
    let objects = slices.iter().map(|slice| slice.end - slice.start).sum();
    let deleted = unseed(&config, &data, ROOT, &slices, &phase).await;
    (deleted, objects)
}

/// A server with a smaller `--max-txn-ops` accepts the data in small transactions, and refuses to
/// delete it in large ones.
#[tokio::test]
async fn a_server_that_takes_small_transactions_only_is_left_as_it_was() {
    let etcd = FakeEtcd::start(Fault::FewOps);
    let (deleted, objects) = seed_and_unseed(&etcd, || {}).await;
    assert_eq!(etcd.keys().len(), 0, "{deleted:?}");
    assert_eq!(deleted.expect("it deletes"), 300);
    assert_eq!(objects, 300, "what was refused was not written");
}

/// Log entries without effect are only for servers that loadgen starts. On an existing etcd they
/// would be 16,000 additional transactions.
#[tokio::test]
async fn an_etcd_that_is_there_is_written_its_objects_and_nothing_else() {
    let etcd = FakeEtcd::start(Fault::None);
    let mut writes = 0;
    let (deleted, _) = seed_and_unseed(&etcd, || writes = etcd.writes()).await;
    assert_eq!(writes, 300);
    assert_eq!(deleted.expect("it deletes"), 300);
}

#[tokio::test]
async fn a_log_is_filled_behind_a_small_data_set_and_not_behind_a_large_one() {
    let etcd = FakeEtcd::start(Fault::None);
    let config = ClientConfig::new(&etcd.url()).expect("a URL");
    for (objects, entries) in [(ONE_BY_ONE, 0), (300, ONE_BY_ONE)] {
        fill_log(&config, objects, ROOT)
            .await
            .expect("it is filled");
        assert_eq!(etcd.writes(), entries);
    }
    assert_eq!(etcd.keys(), [""; 0], "nothing is stored");
}

#[tokio::test]
async fn what_others_write_below_our_root_stays() {
    let etcd = FakeEtcd::start(Fault::None);
    let theirs = format!("{ROOT}theirs");
    let (deleted, _) = seed_and_unseed(&etcd, || etcd.put(&theirs)).await;
    assert_eq!(deleted.expect("it deletes"), 300);
    assert_eq!(etcd.keys(), [theirs]);
}

#[tokio::test]
async fn keys_that_are_left_are_named() {
    let etcd = FakeEtcd::start(Fault::LoseDeletes);
    let theirs = format!("{ROOT}theirs");
    let (deleted, _) = seed_and_unseed(&etcd, || etcd.put(&theirs)).await;
    let text = deleted.expect_err("they are there").to_string();
    let begin = format!("300 are there after they were deleted: {ROOT}");
    assert!(
        text.starts_with(&begin) && text.ends_with(" …") && !text.contains(&theirs),
        "{text}"
    );
}

/// Transactions that are in flight when a run is interrupted may take effect after their keys are
/// deleted. Their keys must be deleted, too.
#[test]
fn puts_on_their_way_do_not_outlive_an_interrupted_run() {
    let etcd = FakeEtcd::start(Fault::LatePuts);
    let out = tempfile::tempdir().expect("a temporary folder");
    let mut child = std::process::Command::new(loadgen(out.path()).get_program())
        .args([
            "run",
            "pods-150k",
            "--objects",
            "20000",
            "--etcd",
            &etcd.url(),
        ])
        .current_dir(out.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    while etcd.writes() == 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "nothing is written"
        );
        thread::sleep(Duration::from_millis(5));
    }
    let killed = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("there is a kill").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    thread::sleep(LATER);
    assert_eq!(etcd.keys().len(), 0, "all are deleted");
}
