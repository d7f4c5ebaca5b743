//! The results of a run: each case as it ends, and the exit code for all of them.

use report::quantity::Quantity;
use report::result::{self, Case, Outcome};
use report::{growth, threshold};

use super::case::Measured;
use super::{Finished, Run};
use crate::exit::{Exit, Failure};
use crate::servers::target_spec::TargetSpec;
use crate::to_result;

impl Run<'_> {
    /// Records the result of a case, and writes all results so far.
    pub(super) fn take(&mut self, measured: Measured) {
        let Measured {
            mut case,
            histograms,
            series,
            load_intervals,
            profiles,
            setup,
            data_set,
            ..
        } = measured;
        let profiles = profiles.into_iter();
        let profiles = profiles.map(|taken| taken.kept(&case, self.folder, self.progress));
        case.profiles = profiles.collect();
        self.progress.say(&one_line(&case));
        let servers = &mut self.result.report.environment.servers;
        if let Some(setup) = setup
            && !servers
                .iter()
                .any(|s| s.target == setup.target && s.lasting_flags() == setup.lasting_flags())
        {
            servers.push(setup);
        }
        self.listed(data_set, &case);
        self.result.report.interrupted |= case.outcome == Outcome::Interrupted;
        self.result.report.cases.push(case);
        self.result.histograms.extend(histograms);
        self.result.series.extend(series);
        self.result.load_intervals.extend(load_intervals);
        self.keep();
    }

    /// Writes the results so far, since the run may be killed at any time.
    fn keep(&mut self) {
        self.judge();
        let interrupted = std::mem::replace(&mut self.result.report.interrupted, true);
        if let Err(error) = self.folder.write(&self.result) {
            self.progress.say(&format!("not kept so far: {error}"));
        }
        self.result.report.interrupted = interrupted;
    }

    fn judge(&mut self) {
        let report = &mut self.result.report;
        report.elapsed_s = self.begun.elapsed().as_secs_f64();
        report.thresholds = threshold::judge(self.scenario, report);
        report.growth = growth::fit(report);
    }

    /// Records the data set of a case. Existing contents, and a data set that was never loaded,
    /// count as data sets, too: the report shows their cases and the reasons below them.
    fn listed(&mut self, seeded: Option<result::DataSet>, case: &Case) {
        let of = |verified: &result::Verified| (verified.objects, verified.bytes);
        let (objects, bytes) = case.verified.as_ref().map_or((0, 0), of);
        let listed = seeded.unwrap_or_else(|| result::DataSet {
            name: case.data_set.clone(),
            objects,
            bytes,
            ..result::DataSet::default()
        });
        let known = &mut self.result.report.data_sets;
        match known.iter_mut().find(|known| known.name == listed.name) {
            None => known.push(listed),
            Some(known) if known.fingerprint.is_none() && listed.objects > known.objects => {
                *known = listed;
            }
            Some(_) => {}
        }
    }

    pub(super) fn finish(mut self, failure: Option<Failure>) -> Finished {
        self.result.report.interrupted |= failure.is_some() && self.stop.is_cancelled();
        if self.result.report.environment.disk.is_none()
            && self
                .plan
                .targets
                .iter()
                .any(|t| matches!(t.spec, TargetSpec::EtcdBinary { .. }))
        {
            self.result.report.environment.disk = measure::disk(&std::env::temp_dir())
                .ok()
                .map(to_result::disk);
        }
        self.judge();
        let mut exit = Exit::Done;
        for case in &self.result.report.cases {
            exit = exit.and(match case.outcome {
                Outcome::Failed { .. } => Exit::TargetFailed,
                Outcome::Invalid { .. } => Exit::Invalid,
                Outcome::Stopped { .. } => Exit::Protected,
                _ => Exit::Done,
            });
        }
        if self.plan.fail_on_threshold {
            if self.result.report.thresholds.is_empty() {
                exit = exit.and(Exit::Invalid);
            }
            for threshold in &self.result.report.thresholds {
                exit = exit.and(match threshold.met {
                    Some(true) => Exit::Done,
                    Some(false) => Exit::TargetFailed,
                    None => Exit::Invalid,
                });
            }
        }
        // Also if a server showed distress before its first case.
        if self.is_over {
            exit = exit.and(Exit::Protected);
        }
        if self.stop.is_cancelled() {
            exit = Exit::Interrupted;
        }
        Finished {
            result: self.result,
            exit,
            failure,
        }
    }
}

/// Returns the outcome of a case in one line.
fn one_line(case: &Case) -> String {
    let id = case.id();
    if let Some(reason) = case.outcome.reason() {
        let state = match case.outcome {
            Outcome::NotApplicable { .. } => "N/A",
            Outcome::Failed { .. } => "FAILED",
            Outcome::Invalid { .. } => "invalid",
            Outcome::Stopped { .. } => "STOPPED",
            _ => "stopped",
        };
        return format!("{id}: {state}: {reason}");
    }
    let time = case.latency_ms.as_ref().and_then(|q| {
        let median = q.p50.map(|ms| ("median", ms));
        median.or(q.mean.map(|ms| ("mean", ms)))
    });
    let above = case.server.as_ref();
    let above = above.map(|s| Quantity::bytes_within(s.peak_above_idle, s.rss_resolution));
    format!(
        "{id}: {}, server {} above idle",
        time.map_or_else(|| "-".to_owned(), |(what, ms)| format!("{what} {ms:.1} ms")),
        Quantity::or_absent(above),
    )
}
