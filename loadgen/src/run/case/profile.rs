//! Profiles of the servers of a case (`--profile`): by whom each is sampled, and what came of it.
//!
//! A server that serves `/debug/pprof` samples itself; another that we started is sampled by
//! `perf`. The profiler begins with the measured part and ends with it, or after half a minute. A
//! server is told beforehand how long to sample itself, so where that part is shorter than it was
//! expected to be, the case waits for the rest; the servers are idle then, and have no samples.

use std::time::{Duration, Instant};

use futures::future::join_all;
use kube_api::client::{KubeAccess, KubeError};
use measure::{Pprof, ProfileError, SAMPLE_FOR_MOST, perf_stacks};
use report::flame_graph::stacks::Stacks;
use report::result::{Case, CpuProfile, Profiler, ResultFolder};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use workloads::Driver;

use super::CaseRun;
use crate::progress::Progress;
use crate::servers::running::Running;

/// How long a server samples itself where nobody knows how long it will be measured.
const USUAL: Duration = Duration::from_secs(10);
/// Functions that are named in a report.
const HOTTEST: usize = 5;

/// The servers of a case, before they are measured.
pub(super) struct Profilers {
    servers: Vec<(String, ProfileSource)>,
    expected: Duration,
    /// Of the whole run: nothing is waited for then.
    interrupted: CancellationToken,
}

/// By whom a server is sampled.
#[derive(Clone)]
enum ProfileSource {
    /// Itself: its URL, and what it lets us in by.
    Pprof(String, KubeAccess),
    /// `perf`, by the number of its process.
    Perf(u32),
    /// Nobody, and why.
    Nobody(String),
}

/// Profilers that run.
pub(super) struct Profiling {
    stop: CancellationToken,
    servers: Vec<AbortOnDropHandle<Taken>>,
}

/// What a profiler came to: what is said of it, and its stacks as a file.
pub(in crate::run) struct Taken {
    profile: CpuProfile,
    stacks: Vec<u8>,
}

impl CaseRun<'_> {
    /// Returns the profilers of a case's servers, where profiles are asked for.
    pub(super) async fn profilers(&self, running: &Running) -> Option<Profilers> {
        if !self.plan.profile {
            return None;
        }
        let spec = self.spec;
        let duration = spec.duration.unwrap_or(self.scenario.duration);
        let expected = match (self.strategy().driver(), &spec.loads) {
            (Driver::Loads, Some(case)) => case.lasts(self.scenario.duration),
            (Driver::Requests, _) if spec.saturate.is_some() => SAMPLE_FOR_MOST,
            (Driver::Requests | Driver::ShardedWatch, _) => duration,
            _ => USUAL,
        };
        let (servers, interrupted) = (sources(running).await, self.stop.clone());
        Some(Profilers {
            servers,
            expected,
            interrupted,
        })
    }

    /// Returns how long the measured lists of a case take, by those that warmed it up; `None`
    /// without any.
    pub(super) fn lists_last(&self, case: &Case) -> Option<Duration> {
        let warm_up = case.warm_up.filter(|warm_up| warm_up.lists > 0)?;
        let list = Duration::from_secs_f64(warm_up.s / f64::from(warm_up.lists));
        let each = self.spec.every.map_or(list, |every| every.max(list));
        Some(each.saturating_mul(self.repeats()))
    }
}

/// Finds out by whom each server can be sampled: asked for their profiles, those that have none
/// and are our processes are left to `perf`.
async fn sources(running: &Running) -> Vec<(String, ProfileSource)> {
    let access = &running.kube_access;
    let started = running.processes().iter();
    let started = started.map(async |child| {
        let source = match running.metrics_url(child.name()) {
            Some(url) if Pprof::open(&url, access.clone()).await.is_ok() => {
                ProfileSource::Pprof(url, access.clone())
            }
            _ => ProfileSource::Perf(child.pid()),
        };
        (child.name().to_owned(), source)
    });
    let started = join_all(started).await;
    if !started.is_empty() {
        return started;
    }
    let etcd = running.etcd.iter().flat_map(|config| &config.endpoints);
    let urls = running.kube_url.iter().cloned();
    let urls = urls.chain(etcd.map(ToString::to_string));
    let there = urls.map(async |url| {
        let source = match Pprof::open(&url, access.clone()).await {
            Ok(_) => ProfileSource::Pprof(url.clone(), access.clone()),
            Err(error) => ProfileSource::Nobody(format!(
                "{error} (etcd serves profiles with --enable-pprof, kube-apiserver with --profiling)"
            )),
        };
        (url, source)
    });
    join_all(there).await
}

impl Profilers {
    /// Says how long the measured part will be.
    pub(super) fn expect(&mut self, measured: Duration) {
        self.expected = measured;
    }

    /// Begins to sample.
    pub(super) fn begin(&self) -> Profiling {
        let stop = CancellationToken::new();
        let servers = self.servers.iter().cloned();
        let servers = servers.map(|(process, source)| {
            let (expected, interrupted) = (self.expected, self.interrupted.clone());
            let (stop, begun) = (stop.clone(), Instant::now());
            AbortOnDropHandle::new(tokio::spawn(async move {
                let taken = source.sampled(process.clone(), expected, stop);
                tokio::select! {
                    taken = taken => taken,
                    () = interrupted.cancelled() => {
                        let reason = "the run was interrupted".to_owned();
                        Taken::missing(process, None, begun.elapsed(), reason)
                    }
                }
            }))
        });
        Profiling {
            servers: servers.collect(),
            stop,
        }
    }
}

impl Profiling {
    /// Says that the measured part is over.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for the profiles.
    pub(super) async fn taken(self) -> Vec<Taken> {
        let taken = join_all(self.servers).await;
        taken.into_iter().flatten().collect()
    }
}

impl ProfileSource {
    /// Samples a server until it is stopped, or for as long as it was expected to be measured.
    async fn sampled(self, process: String, expected: Duration, stop: CancellationToken) -> Taken {
        let (profiler, sampled) = match self {
            Self::Nobody(reason) => return Taken::missing(process, None, Duration::ZERO, reason),
            Self::Pprof(url, access) => {
                let mut begun = None;
                let sampled = async {
                    let mut pprof = Pprof::open(&url, access).await?;
                    begun = Some(Instant::now());
                    pprof.profile(expected).await
                };
                let sampled = sampled.await;
                let sampled = sampled.map(|(gzip, time)| (gzip.to_vec(), time));
                // A server that refuses has not sampled; one whose profile did not come may have.
                let failed = |error: ProfileError| {
                    let refused = matches!(&error, ProfileError::Server(KubeError::Refused { .. }));
                    let ran = begun.filter(|_| !refused);
                    let ran = ran.map_or(Duration::ZERO, |begun| begun.elapsed());
                    (error.to_string(), ran)
                };
                (Profiler::Pprof, sampled.map_err(failed))
            }
            Self::Perf(pid) => {
                let sampled = perf_stacks(pid, stop.cancelled()).await;
                let sampled = sampled.map_err(|(error, time)| (error.to_string(), time));
                let folded = sampled.and_then(|of| {
                    let failed = |error: &dyn std::fmt::Display| (error.to_string(), of.sampled);
                    let stacks = Stacks::parse(&of.folded).map_err(|e| failed(&e))?;
                    let file = stacks.to_folded().map_err(|e| failed(&e))?;
                    Ok((file, of.sampled))
                });
                (Profiler::Perf, folded)
            }
        };
        match sampled {
            Ok((file, time)) => Taken::of(process, profiler, file, time),
            Err((reason, time)) => Taken::missing(process, Some(profiler), time, reason),
        }
    }
}

impl Taken {
    fn of(process: String, profiler: Profiler, file: Vec<u8>, time: Duration) -> Self {
        let stacks = match profiler {
            Profiler::Pprof => Stacks::from_pprof(&file),
            Profiler::Perf => Stacks::from_folded(&file),
        };
        let missing = |reason| Self::missing(process.clone(), Some(profiler), time, reason);
        let stacks = match stacks {
            Ok(stacks) => stacks,
            Err(error) => return missing(format!("what came is {error}")),
        };
        if stacks.samples() == 0 {
            return missing("it used no CPU time that was sampled".to_owned());
        }
        Self {
            profile: CpuProfile {
                process,
                profiler: Some(profiler),
                sampled_s: time.as_secs_f64(),
                samples: stacks.samples(),
                hottest: stacks.hottest(HOTTEST),
                ..CpuProfile::default()
            },
            stacks: file,
        }
    }

    fn missing(process: String, profiler: Option<Profiler>, time: Duration, why: String) -> Self {
        Self {
            profile: CpuProfile {
                process,
                profiler: profiler.filter(|_| !time.is_zero()),
                sampled_s: time.as_secs_f64(),
                missing: Some(why),
                ..CpuProfile::default()
            },
            stacks: Vec::new(),
        }
    }

    /// Keeps the stacks of a case's server in the result's folder, and says what there is not.
    pub(in crate::run) fn kept(
        self,
        case: &Case,
        folder: &ResultFolder,
        progress: &Progress,
    ) -> CpuProfile {
        let Self {
            mut profile,
            stacks,
        } = self;
        if let (Some(profiler), None) = (profile.profiler, &profile.missing) {
            match folder.keep_profile(case, &profile.process, profiler, &stacks) {
                Ok(file) => profile.file = Some(file),
                Err(error) => profile.missing = Some(error.to_string()),
            }
        }
        if let Some(reason) = &profile.missing {
            let text = format!("{}: no profile of {}: {reason}", case.id(), profile.process);
            progress.say(&text);
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_profile_is_missing_and_the_case_was_disturbed_all_the_same() {
        let second = Duration::from_secs(1);
        let taken = Taken::of(
            "etcd".to_owned(),
            Profiler::Pprof,
            b"no gzip".to_vec(),
            second,
        );
        let missing = taken.profile.missing.as_deref().unwrap_or_default();
        assert!(missing.contains("no gzip"), "{missing}");
        assert!(taken.profile.has_run(), "it sampled");
        let nothing = Stacks::default().to_folded().expect("memory");
        let taken = Taken::of("etcd".to_owned(), Profiler::Perf, nothing, second);
        let missing = taken.profile.missing.as_deref().unwrap_or_default();
        assert!(missing.contains("no CPU time"), "{missing}");
    }
}
