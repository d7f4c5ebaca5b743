//! CPU profiles of the servers of a case (`--profile`): which profiler samples each server, and the
//! results.
//!
//! A server that serves `/debug/pprof` samples itself. Another server that loadgen started is
//! sampled by `perf`. The profiler starts with the measured part and stops with it, or after half a
//! minute. A server that samples itself must be told the duration beforehand. If the measured part
//! is shorter than expected, the case waits for the rest; the servers are idle then, and have no
//! samples.

use std::time::{Duration, Instant};

use futures::future::join_all;
use kube_api::client::{KubeAccess, KubeError};
use measure::{MAX_SAMPLING_TIME, Pprof, ProfileError, perf_stacks};
use report::flame_graph::stacks::Stacks;
use report::result::{Case, CpuProfile, Profiler, ResultFolder};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use workloads::Driver;

use super::CaseRun;
use crate::progress::Progress;
use crate::servers::running::Running;

/// How long a server samples itself if the duration of the measured part is not known.
const USUAL: Duration = Duration::from_secs(10);
/// The number of functions that a report names.
const HOTTEST: usize = 5;

/// The profilers of a case's servers, before the measured part.
pub(super) struct Profilers {
    servers: Vec<(String, ProfileSource)>,
    expected: Duration,
    /// The token of the whole run. Once it is cancelled, profiles are not waited for.
    interrupted: CancellationToken,
}

/// The profiler of a server.
#[derive(Clone)]
enum ProfileSource {
    /// The server itself: its URL and the credentials for it.
    Pprof(String, KubeAccess),
    /// `perf`, with the id of the server's process.
    Perf(u32),
    /// None, with the reason.
    Nobody(String),
}

/// Profilers that are running.
pub(super) struct Profiling {
    stop: CancellationToken,
    servers: Vec<AbortOnDropHandle<ProfileResult>>,
}

/// The result of a profiler: its summary, and the stacks as a file.
pub(in crate::run) struct ProfileResult {
    profile: CpuProfile,
    stacks: Vec<u8>,
}

impl CaseRun<'_> {
    /// Returns the profilers of a case's servers, if `--profile` was given.
    pub(super) async fn profilers(&self, running: &Running) -> Option<Profilers> {
        if !self.plan.profile {
            return None;
        }
        let spec = self.spec;
        let duration = spec.duration.unwrap_or(self.scenario.duration);
        let expected = match (self.strategy().driver(), &spec.loads) {
            _ if spec.saturate.is_some() => MAX_SAMPLING_TIME,
            (Driver::Loads, Some(case)) => case.lasts(self.scenario.duration),
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

    /// Returns the expected duration of a case's measured lists, by the lists of its warm-up;
    /// `None` without a warm-up.
    pub(super) fn lists_last(&self, case: &Case) -> Option<Duration> {
        let warm_up = case.warm_up.filter(|warm_up| warm_up.lists > 0)?;
        let list = Duration::from_secs_f64(warm_up.s / f64::from(warm_up.lists));
        let each = self.spec.every.map_or(list, |every| every.max(list));
        Some(each.saturating_mul(self.repeats()))
    }
}

/// Chooses the profiler of each server: the server's own if it serves profiles, else `perf` if
/// loadgen started the server.
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
    /// Sets the expected duration of the measured part.
    pub(super) fn expect(&mut self, measured: Duration) {
        self.expected = measured;
    }

    /// Starts sampling.
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
                        ProfileResult::missing(process, None, begun.elapsed(), reason)
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
    /// Tells the profilers that the measured part is over.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for the profiles.
    pub(super) async fn taken(self) -> Vec<ProfileResult> {
        let taken = join_all(self.servers).await;
        taken.into_iter().flatten().collect()
    }
}

impl ProfileSource {
    /// Samples a server: `perf` until `stop`, the server itself for the `expected` duration.
    async fn sampled(
        self,
        process: String,
        expected: Duration,
        stop: CancellationToken,
    ) -> ProfileResult {
        let (profiler, sampled) = match self {
            Self::Nobody(reason) => {
                return ProfileResult::missing(process, None, Duration::ZERO, reason);
            }
            Self::Pprof(url, access) => {
                let mut begun = None;
                let sampled = async {
                    let mut pprof = Pprof::open(&url, access).await?;
                    begun = Some(Instant::now());
                    pprof.profile(expected).await
                };
                let sampled = sampled.await;
                let sampled = sampled.map(|(gzip, time)| (gzip.to_vec(), time));
                // A server that refuses has not sampled. A server whose profile did not arrive may
                // have.
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
            Ok((file, time)) => ProfileResult::of(process, profiler, file, time),
            Err((reason, time)) => ProfileResult::missing(process, Some(profiler), time, reason),
        }
    }
}

impl ProfileResult {
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

    /// Writes the stacks of a case's server to the result's folder. Reports a profile that is
    /// missing.
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
        let taken = ProfileResult::of(
            "etcd".to_owned(),
            Profiler::Pprof,
            b"no gzip".to_vec(),
            second,
        );
        let missing = taken.profile.missing.as_deref().unwrap_or_default();
        assert!(missing.contains("no gzip"), "{missing}");
        assert!(taken.profile.has_run(), "it sampled");
        let nothing = Stacks::default().to_folded().expect("memory");
        let taken = ProfileResult::of("etcd".to_owned(), Profiler::Perf, nothing, second);
        let missing = taken.profile.missing.as_deref().unwrap_or_default();
        assert!(missing.contains("no CPU time"), "{missing}");
    }
}
