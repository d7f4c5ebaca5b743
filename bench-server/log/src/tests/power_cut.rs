//! After any power cut, a log has a prefix of the appended records, including every record that a
//! sync has covered.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Write,
    Sync,
    Rotate,
    /// The process ends; everything written stays.
    Kill,
    PowerCut,
    /// The disk fails after this number of calls, until the next end of the process.
    FailAfter(u64),
    /// The sync after this number of syncs fails and discards what it should have written.
    FailSyncAfter(u64),
    FillUpAfter(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1usize..1500).prop_map(Step::Append),
        6 => Just(Step::Write),
        6 => Just(Step::Sync),
        1 => Just(Step::Rotate),
        2 => Just(Step::Kill),
        2 => Just(Step::PowerCut),
        1 => (0u64..12).prop_map(Step::FailAfter),
        1 => (0u64..4).prop_map(Step::FailSyncAfter),
        1 => (0u64..4000).prop_map(Step::FillUpAfter),
    ]
}

struct Run {
    disk: SimulatedDisk,
    config: Config,
    log: Option<Log>,
    appended: Vec<Vec<u8>>,
    /// Number of records for which `write` has returned, and for which `sync` has.
    written: usize,
    synced: usize,
    /// Number of records ever appended, including lost ones.
    ever: usize,
}

impl Run {
    /// Ends the process, and opens the log until this succeeds.
    fn start(&mut self, power_cut: bool) -> Result<(), TestCaseError> {
        self.log = None;
        match power_cut {
            true => self.disk.cut_power(),
            false => self.disk.restart(),
        }
        let found = open(&self.disk, self.config);
        let found = found.map_err(|e| TestCaseError::fail(format!("no start: {e}")))?;
        let records = found.records;
        let kept = match power_cut {
            true => self.synced,
            false => self.written,
        };
        prop_assert!(records.len() >= kept, "{} of {kept} records", records.len());
        prop_assert!(self.appended.starts_with(&records), "not a beginning");
        self.appended = records;
        self.written = self.appended.len();
        if self.config.sync {
            // The replayed records are served from now on.
            self.synced = self.written;
        }
        self.log = Some(found.log);
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        match step {
            Step::Append(bytes) => {
                let payload = payload(self.ever, *bytes);
                self.ever += 1;
                self.appended.push(payload.clone());
                // The record may be in the log even if this fails.
                drop(log.append(&payload));
            }
            Step::Write => {
                if log.write().is_ok() {
                    self.written = self.appended.len();
                }
            }
            // Without syncs at the ends of segments, a sync does not cover the earlier segments.
            Step::Sync if !self.config.sync => {}
            Step::Sync => {
                if log.sync().is_ok() {
                    self.synced = self.written;
                }
            }
            Step::Rotate => {
                if log.rotate().is_ok() {
                    self.written = self.appended.len();
                    if self.config.sync {
                        self.synced = self.written;
                    }
                }
            }
            Step::Kill => self.start(false)?,
            Step::PowerCut => self.start(true)?,
            Step::FailAfter(calls) => self.disk.fail_after(*calls),
            Step::FailSyncAfter(syncs) => self.disk.fail_sync_after(*syncs),
            Step::FillUpAfter(bytes) => self.disk.fill_up_after(*bytes),
        }
        Ok(())
    }
}

fn run(steps: &[Step], seed: u64, config: Config) -> Result<(), TestCaseError> {
    let disk = SimulatedDisk::new(seed);
    disk.write_short();
    let mut run = Run {
        disk,
        config,
        log: None,
        appended: Vec::new(),
        written: 0,
        synced: 0,
        ever: 0,
    };
    run.start(false)?;
    for step in steps {
        run.take(step)?;
    }
    run.start(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_was_synced_is_there(steps in prop::collection::vec(step(), 1..80), seed: u64) {
        run(&steps, seed, SMALL)?;
    }

    #[test]
    fn without_syncs_it_is_still_a_beginning(
        steps in prop::collection::vec(step(), 1..80),
        seed: u64,
    ) {
        run(&steps, seed, Config { sync: false, ..SMALL })?;
    }
}

/// Cuts the power at every call of a start that has an end to cut.
#[test]
fn a_start_can_be_interrupted_anywhere() {
    for seed in 0..40 {
        let mut calls = 0;
        loop {
            let disk = SimulatedDisk::new(seed);
            let mut found = open(&disk, SMALL).expect("a new log");
            let mut expected = fill(&mut found.log, 0..20, 100);
            let acknowledged = expected.len();
            for number in 20..26 {
                expected.push(payload(number, 200));
                found.log.append(&expected[number]).expect("room");
            }
            found.log.write().expect("room");
            disk.cut_power();
            disk.fail_after(calls);
            let whole = open(&disk, SMALL).is_ok();
            disk.cut_power();
            let found = open(&disk, SMALL).expect("a log that starts");
            assert!(found.records.len() >= acknowledged);
            assert!(expected.starts_with(&found.records));
            if whole {
                break;
            }
            calls += 1;
        }
        assert!(calls > 5, "a start makes several calls");
    }
}

/// Replayed records are served, so a start must sync all segments that the server before did not
/// sync.
#[test]
fn what_was_written_without_syncs_is_durable_once_it_is_opened_with_them() {
    let disk = SimulatedDisk::new(1);
    let never = Config {
        sync: false,
        ..SMALL
    };
    let mut found = open(&disk, never).expect("a new log");
    let expected: Vec<_> = (0..50).map(|number| payload(number, 100)).collect();
    for payload in &expected {
        found.log.append(payload).expect("room");
    }
    found.log.write().expect("room");
    disk.restart();
    let found = open(&disk, SMALL).expect("a whole log");
    assert_eq!(found.records, expected);
    disk.cut_power();
    let found = open(&disk, SMALL).expect("a whole log");
    assert_eq!(found.records, expected);
}
