//! After a power cut at any moment, the store is in the state after one of its writes, and no
//! acknowledged write is missing.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8, i64),
    Delete(u8, u8),
    Txn(Vec<(u8, bool)>),
    Grant(i64),
    Revoke(i64),
    /// Compacts to this number of revisions before the latest.
    Compact(i64),
    Alarm(bool),
    /// Waits until everything is acknowledged.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..6, any::<u8>(), 0i64..3).prop_map(|(key, value, lease)| Step::Put(key, value, lease)),
        2 => (0u8..6, 0u8..6).prop_map(|(from, to)| Step::Delete(from, to)),
        2 => prop::collection::vec((0u8..6, any::<bool>()), 1..6).prop_map(Step::Txn),
        1 => (1i64..3).prop_map(Step::Grant),
        1 => (1i64..3).prop_map(Step::Revoke),
        2 => (0i64..5).prop_map(Step::Compact),
        1 => any::<bool>().prop_map(Step::Alarm),
        4 => Just(Step::Wait),
    ]
}

fn key(number: u8) -> String {
    format!("key {number}")
}

/// Applies a step to a store. An error is the same for every store.
fn take(store: &Store, step: &Step) {
    match step {
        Step::Put(number, value, lease) => {
            let value = value.to_string().repeat(usize::from(*value));
            drop(store.put(&put(&key(*number), &value, *lease)));
        }
        Step::Delete(from, to) => drop(store.delete_range(&delete(&key(*from), &key(*to)))),
        Step::Txn(writes) => {
            // Deletions first: no key is written twice.
            let deletes = writes.iter().filter(|(_, deletes)| *deletes);
            let deletes =
                deletes.map(|(number, _)| Request::RequestDeleteRange(delete(&key(*number), "")));
            let puts = writes.iter().filter(|(_, deletes)| !deletes);
            let puts = puts.map(|(number, _)| Request::RequestPut(put(&key(*number), "txn", 0)));
            drop(store.txn(&txn(deletes.chain(puts).collect())));
        }
        Step::Grant(id) => drop(store.lease_grant(*id, 1000, Instant::now())),
        Step::Revoke(id) => drop(store.lease_revoke(*id)),
        Step::Compact(back) => drop(store.compact(store.revision() - back)),
        Step::Alarm(true) => drop(store.raise_alarm(AlarmType::Nospace)),
        Step::Alarm(false) => drop(store.clear_alarm(AlarmType::Nospace)),
        Step::Wait => {}
    }
}

/// Runs steps until the disk fails, which it does after `calls` calls; then cuts the power and
/// opens the store again.
fn run(steps: &[Step], seed: u64, calls: u64, fsync: Fsync) -> Result<(), TestCaseError> {
    let disk = SimulatedDisk::new(seed);
    disk.write_short();
    let store = open(&disk, fsync);
    disk.fail_after(calls);
    let mut acknowledged = 0;
    for (at, step) in steps.iter().enumerate() {
        // A compaction may name only a published revision, and the model publishes at once.
        let waits = matches!(step, Step::Wait | Step::Compact(_));
        if waits && logged(&store, Ok(())).is_ok() {
            acknowledged = at;
        } else if waits {
            break;
        }
        take(&store, step);
    }
    store.close_log();
    drop(store);
    let lost_power = fsync == Fsync::Always;
    match lost_power {
        true => disk.cut_power(),
        false => disk.restart(),
    }
    let found = dump(&open(&disk, fsync));
    let model = Store::new(Config::default());
    steps[..acknowledged]
        .iter()
        .for_each(|step| take(&model, step));
    let mut later = steps[acknowledged..].iter();
    while dump(&model) != found {
        let Some(step) = later.next() else {
            let found = format!("{found:?}");
            return Err(TestCaseError::fail(format!(
                "no moment of the history: {found}"
            )));
        };
        take(&model, step);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_was_acknowledged_survives_a_power_cut(
        steps in prop::collection::vec(step(), 1..60),
        seed: u64,
        calls in 0u64..200,
    ) {
        run(&steps, seed, calls, Fsync::Always)?;
    }

    #[test]
    fn what_was_written_survives_the_end_of_the_process(
        steps in prop::collection::vec(step(), 1..60),
        seed: u64,
        calls in 0u64..200,
    ) {
        run(&steps, seed, calls, Fsync::Never)?;
    }
}
