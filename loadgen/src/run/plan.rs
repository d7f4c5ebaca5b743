//! The checked command line.
//!
//! - [`resource_flags`]: which resource of existing Kubernetes APIs is listed
//! - [`scenarios`]: the scenarios of a command line
//! - [`mod@targets`]: the targets of a command line, and how to connect to them

mod resource_flags;
mod scenarios;
mod targets;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::time::SystemTime;

use anyhow::anyhow;
use kube_api::client::config::Context;
use kube_api::client::{Connection, Options};
use load::clients::go_clients::GoClients;
use load::driver::open_clock::Waiting;
use report::result::ClientSettings;
use workloads::scenario::Saturate;
use workloads::{CaseSpec, CpuList, DataSet, Overrides, Scenario, Strategy, Tier};

use self::resource_flags::ResourceFlags;
use self::scenarios::{add_thresholds, check_thresholds, named, prefix_scenario};
pub use self::targets::{connect_config, kube_access, target_names};
use self::targets::{targets, tell_apart};
use super::availability::combination::{loaded, measures_something, never};
use super::availability::machine::Needs;
use super::generators::{self, GeneratorGroup};
use super::target::Target;
use crate::cli::{AbArgs, RunArgs};
use crate::environment::allocator;
use crate::exit::Failure;
use crate::isolation::cpus;
use crate::safety::limits::Allowed;
use crate::servers::target_spec::TargetSpec;
use crate::servers::{Contexts, Given, Launcher, OwnProgram, is_given};

/// A checked command line.
#[derive(Debug)]
pub struct Plan {
    /// The scenarios, with the changes from the command line.
    pub scenarios: Vec<Scenario>,
    /// The targets to measure.
    pub targets: Vec<Target>,
    /// The prefix whose existing keys are listed; nothing is written then.
    pub prefix: Option<String>,
    /// The resource and namespace to list on existing Kubernetes APIs.
    resource_flags: ResourceFlags,
    /// What a user must know about the scenarios before they run, one line each.
    pub notes: Vec<String>,
    pub(super) seed_data: bool,
    pub(super) keep_data: bool,
    /// The limits on endpoints that hold other people's data.
    pub(super) allowed: Allowed,
    /// Whether `--strategies` was given.
    pub(super) names_strategies: bool,
    /// Whether a missed threshold makes the run fail.
    pub(super) fail_on_threshold: bool,
    /// On how many fresh starts of its servers each case is measured.
    pub(super) starts: NonZeroU32,
    /// Whether servers are profiled while they are measured.
    pub(super) profile: bool,
    /// Starts servers on any CPU. Use [`Plan::launcher_of`] for the servers of a scenario.
    pub(super) launcher: Launcher,
    /// The CPUs that this program may use before it is pinned; `None` if the system does not report
    /// them.
    available_cpus: Option<CpuList>,
    /// Where the Go client programs are.
    pub(super) go_clients: GoClients,
    /// Makes the run's prefix on foreign endpoints different from that of any other run. Generators
    /// that produce a load together have the same id.
    pub(super) run_id: String,
    /// The number of this generator among several, and when the load begins.
    pub(super) together: GeneratorGroup,
}

impl Plan {
    /// Checks the command line. With `saturate`, cases of small requests and of loads search for
    /// their highest rate. `own_program` is the program that starts loadgen's own servers
    /// (`own_program serve …`).
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 and one line that says what to change.
    pub fn new(
        args: &RunArgs,
        saturate: Option<Saturate>,
        own_program: &Path,
    ) -> Result<Self, Failure> {
        let targets = targets(args)?.into_iter();
        let targets = targets.map(|spec| Target::named(spec, Given::default()));
        let mut targets = targets.collect::<Result<Vec<_>, _>>()?;
        tell_apart(&mut targets);
        Self::with_targets(args, saturate, own_program, targets)
    }

    /// Returns the plan for these targets, ignoring the targets in `args`.
    fn with_targets(
        args: &RunArgs,
        saturate: Option<Saturate>,
        own_program: &Path,
        targets: Vec<Target>,
    ) -> Result<Self, Failure> {
        if args.prefix.is_some()
            && let Some(started) = targets.iter().find(|t| t.spec.is_started())
        {
            return Err(Failure::usage(anyhow!(
                "--prefix lists existing keys, and loadgen starts `{}` without any: name an existing etcd with --etcd URL",
                started.name
            )));
        }
        let resource_flags = ResourceFlags::of(args, &targets)?;
        let overrides = overrides_of(args, saturate)?;
        let mut scenarios = match &args.prefix {
            Some(prefix) => vec![prefix_scenario(prefix)?],
            None => named(&args.scenarios)?,
        };
        let launcher = Launcher {
            own_program: own_program.into(),
            connect: connect_config(&args.connect)?,
            kube_access: kube_access(&args.connect)?,
            contexts: Contexts::default(),
            serves_profiles: args.profile,
        };
        let mut notes = warnings_of_contexts(&targets)?;
        notes.extend(add_thresholds(&mut scenarios, args.thresholds.as_deref())?);
        notes.extend(proxies(&launcher, &targets)?);
        let starts_all = targets.iter().all(|target| target.spec.is_started());
        for scenario in &mut scenarios {
            scenario.override_with(&overrides).map_err(Failure::usage)?;
            resource_flags.narrow(scenario);
            notes.extend(cpus::choose(scenario, args, starts_all)?);
            check_thresholds(scenario)?;
            measures_something(scenario, &targets, args.seed_data)?;
        }
        let searches = |scenario: &Scenario| {
            let mut cases = scenario.cases.all();
            cases.any(|(_, case)| case.saturate.is_some())
        };
        let is_search = scenarios.iter().any(searches);
        let starts = starts(args, is_search, &targets)?;
        let together = GeneratorGroup::of(args)?;
        generators::check(together, &scenarios, &targets, args)?;
        Ok(Self {
            scenarios,
            targets,
            prefix: args.prefix.clone(),
            resource_flags,
            notes,
            seed_data: args.seed_data,
            keep_data: args.keep_data,
            allowed: args.care.allowed(),
            names_strategies: !args.strategies.is_empty(),
            fail_on_threshold: args.fail_on_threshold,
            starts,
            profile: args.profile,
            launcher,
            available_cpus: cpus::available().ok(),
            go_clients: GoClients {
                folder: args.go_clients.clone(),
                own_program: own_program.to_owned(),
            },
            run_id: together.run_id().unwrap_or_else(run_id),
            together,
        })
    }

    /// Returns the plan of `loadgen ab`: two targets that loadgen starts, each with the flags and
    /// environment of its side.
    ///
    /// # Errors
    /// Those of [`Plan::new`].
    pub fn of_sides(args: &AbArgs, run: &RunArgs, own_program: &Path) -> Result<Self, Failure> {
        if !run.targets.is_empty() || run.etcd.is_some() || run.kube.is_some() {
            return Err(Failure::usage(anyhow!(
                "ab takes its targets from --base and --new: remove --target, --etcd and --kube"
            )));
        }
        if run.shard.is_some() || run.start_at.is_some() {
            return Err(Failure::usage(anyhow!(
                "ab runs on one machine and begins when its servers are ready: remove --shard and --start-at"
            )));
        }
        if run.starts.is_some() {
            return Err(Failure::usage(anyhow!(
                "ab starts its servers until it has a verdict, or until --within is over: remove --starts"
            )));
        }
        if run.profile {
            return Err(Failure::usage(anyhow!(
                "ab compares, and what a profiler costs differs from server to server: profile each by `loadgen run --profile`"
            )));
        }
        let side = |text: &str, given: Given| {
            let spec: TargetSpec = text.parse().map_err(Failure::usage)?;
            if !spec.is_started() {
                return Err(Failure::usage(anyhow!(
                    "ab starts its targets itself, and `{text}` is an existing endpoint: use `loadgen run` twice, then `loadgen compare`"
                )));
            }
            if let Some(flag) = given.kube_flags.first()
                && !spec.has_kube_tier()
            {
                return Err(Failure::usage(anyhow!(
                    "`{text}` has no Kubernetes tier that could take {flag}: start it as bench+etcd:PATH"
                )));
            }
            let mut environment = given.environment.iter();
            if let Some(wrong) = environment.find(|one| !one.contains('=')) {
                return Err(Failure::usage(anyhow!("`{wrong}` is not NAME=VALUE")));
            }
            Target::named(spec, given)
        };
        let mut targets = vec![
            side(&args.base, args.given_to_base())?,
            side(&args.new, args.given_to_new())?,
        ];
        if targets[0].spec == targets[1].spec {
            // The same program twice, with different flags or to see the effect of chance.
            targets[0].name.push_str("-base");
            targets[1].name.push_str("-new");
        }
        tell_apart(&mut targets);
        let plan = Self::with_targets(run, None, own_program, targets)?;
        plan.check_kube_flags()?;
        Ok(plan)
    }

    /// Checks that flags for the Kubernetes tier have an effect, and do not change what a case is.
    fn check_kube_flags(&self) -> Result<(), Failure> {
        let flags = self.targets.iter().flat_map(|it| &it.given.kube_flags);
        let mut cases = Vec::new();
        for scenario in &self.scenarios {
            for set in &scenario.data_sets {
                let of_kube = scenario.cases_on(&set.name);
                cases.extend(of_kube.filter(|(tier, _)| *tier == Tier::Kube));
            }
        }
        for flag in flags {
            let name = flag.split_once('=').map_or(&**flag, |(name, _)| name);
            if cases.is_empty() {
                return Err(Failure::usage(anyhow!(
                    "no case uses the Kubernetes tier, so {flag} would have no effect: choose one by --strategies, as consistent"
                )));
            }
            let mut cases = cases.iter();
            if let Some((_, case)) = cases.find(|(_, case)| is_given(name, &case.server)) {
                return Err(Failure::usage(anyhow!(
                    "case `{}` sets {name} itself, and would be another case with {flag}: leave one of them out",
                    case.name()
                )));
            }
        }
        Ok(())
    }

    /// Returns the name of a scenario's result. It contains the shard, since generators that
    /// produce a load together may write to one folder.
    #[must_use]
    pub fn result_name(&self, scenario: &Scenario) -> String {
        let shard = self.together.shard;
        match shard.is_whole() {
            true => scenario.name.clone(),
            false => format!("{}-{}-of-{}", scenario.name, shard.index(), shard.count()),
        }
    }

    /// Returns what the run would do and what it needs, one line for each case.
    #[must_use]
    pub fn dry_run(&self) -> String {
        let free_memory = measure::free_memory_bytes().unwrap_or(0);
        let free_disk = measure::free_disk_bytes(&std::env::temp_dir()).unwrap_or(0);
        let mut lines = vec![format!(
            "free: {} MiB of memory, {} MiB of disk in {}",
            free_memory >> 20,
            free_disk >> 20,
            std::env::temp_dir().display()
        )];
        lines.extend(self.notes.iter().cloned());
        for scenario in &self.scenarios {
            lines.extend(cpus::shown(scenario).map(|on| format!("{}: {on}", scenario.name)));
            for spec in &scenario.data_sets {
                let data = DataSet::new(spec);
                for target in &self.targets {
                    for (tier, case) in scenario.cases_on(&spec.name) {
                        // These endpoints are surveyed, which gives a line for each case: see
                        // [`super::survey`].
                        if self.only_reads(target) {
                            continue;
                        }
                        let name = format!("{}/{}/{tier}/{}", spec.name, target.name, case.name());
                        let target = &target.spec;
                        lines.push(self.dry_case(&name, target, tier, case, &data, scenario));
                    }
                }
            }
        }
        lines.join("\n")
    }

    /// Returns whether the run only lists the existing contents of an endpoint and writes nothing
    /// to it.
    pub(super) fn only_reads(&self, target: &Target) -> bool {
        match target.spec {
            TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) => !self.seed_data,
            _ => self.prefix.is_some() && !target.spec.is_started(),
        }
    }

    fn dry_case(
        &self,
        name: &str,
        target: &TargetSpec,
        tier: Tier,
        case: &CaseSpec,
        data: &DataSet,
        scenario: &Scenario,
    ) -> String {
        let loaded = loaded(target, self.seed_data, data.spec().kind);
        if let Some(reason) = never(target, scenario, tier, case, loaded) {
            return format!("{name}: N/A: {reason}");
        }
        let program = case
            .strategy
            .go_client()
            .map(|c| self.go_clients.program(c));
        if let Some(Err(reason)) = program {
            return format!("{name}: N/A: {reason}");
        }
        let after = match self.keep_data {
            true => "leaves them there",
            false => "removes them after",
        };
        if let TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) = target {
            return format!(
                "{name}: writes {} objects into {} namespaces loadgen-{}-…, {after}",
                data.len(),
                data.namespaces(),
                self.run_id
            );
        }
        if !target.is_started() {
            let root = self.foreign_root(data);
            // The endpoint has not been contacted yet.
            let unless = match self.seed_data {
                true => "",
                false => "; refused where it already holds a key (--seed-data allows it)",
            };
            return format!(
                "{name}: writes {} objects below {root}, {after}{unless}",
                data.len()
            );
        }
        let clients = case.strategy.workers().or(case.clients);
        let clients = clients.map_or(scenario.clients, NonZeroU32::get);
        let needs = Needs::of(target, tier, case.strategy, data, clients);
        let repeats = case.repeats.map_or(scenario.repeats, NonZeroU32::get);
        let starts = match self.starts.get() {
            1 => String::new(),
            starts => format!("on each of {starts} starts, "),
        };
        format!(
            "{name}: {} objects, {repeats} lists by {clients} clients, {starts}needs {} MiB of memory and {} MiB of disk",
            data.len(),
            needs.memory >> 20,
            needs.disk >> 20
        )
    }

    /// Returns the launcher for the servers of a scenario: on the scenario's server CPUs, or, if
    /// only client CPUs are given, on those that the generator had before it was pinned.
    pub(super) fn launcher_of(&self, scenario: &Scenario) -> Launcher {
        let server_cpus = match (&scenario.server_cpus, &scenario.client_cpus) {
            (None, None) => None,
            (Some(cpus), _) => Some(cpus.clone()),
            (None, Some(_)) => self.available_cpus.clone(),
        };
        let own_program = OwnProgram {
            server_cpus,
            ..self.launcher.own_program.clone()
        };
        Launcher {
            own_program,
            ..self.launcher.clone()
        }
    }

    /// Returns the prefix below which a data set is written on an existing endpoint. Each data set
    /// has its own, since one may be kept for other readers when the next is written.
    pub(super) fn foreign_root(&self, data: &DataSet) -> String {
        format!("/loadgen/{}/{}/registry/", self.run_id, data.spec().name)
    }

    /// Returns the generator's settings, for the result.
    pub(super) fn client_settings(&self) -> ClientSettings {
        let http2 = self.launcher.connect.http2;
        ClientSettings {
            stream_window_bytes: http2.stream_window_bytes,
            connection_window_bytes: http2.connection_window_bytes,
            max_frame_bytes: http2.max_frame_bytes,
            decode_mode: "raw".to_owned(),
            allocator: allocator(),
        }
    }
}

/// Returns how open loops wait until a request is due. They spin if the generator has CPUs that no
/// server may use, so that no request is late by a wake-up. Otherwise they sleep, so that servers
/// can use the CPU.
pub(super) fn waiting(scenario: &Scenario) -> Waiting {
    match (&scenario.server_cpus, &scenario.client_cpus) {
        (Some(servers), Some(own)) if own.is_apart_from(servers) => Waiting::Spin,
        _ => Waiting::Sleep,
    }
}

/// Returns an id that makes a prefix or a namespace different from that of any other run: the time
/// and the process id.
#[must_use]
pub fn run_id() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let plain: String = now.chars().filter(char::is_ascii_alphanumeric).collect();
    // Also part of the names of namespaces, which must be in lower case.
    format!("{}-{}", plain.to_lowercase(), std::process::id())
}

/// Returns what the command line changes of each scenario.
fn overrides_of(args: &RunArgs, saturate: Option<Saturate>) -> Result<Overrides, Failure> {
    let strategies = args
        .strategies
        .iter()
        .map(|name| name.parse().map_err(Failure::usage))
        .collect::<Result<Vec<Strategy>, _>>()?;
    Ok(Overrides {
        objects: args.objects.and_then(NonZeroU64::new),
        object_size: args.object_size.and_then(NonZeroU64::new),
        seed: args.seed,
        repeats: args.repeats.and_then(NonZeroU32::new),
        clients: args.clients.and_then(NonZeroU32::new),
        rate: args.rate,
        duration: args.duration,
        saturate,
        strategies: (!strategies.is_empty()).then_some(strategies),
        network: args.network(),
        cases: (!args.cases.is_empty()).then(|| args.cases.clone()),
    })
}

/// Returns what the contexts of kubeconfig files warn of.
fn warnings_of_contexts(targets: &[Target]) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for target in targets {
        if let TargetSpec::Kubeconfig(name) = &target.spec {
            let context = Context::named(name).map_err(Failure::usage)?;
            warnings.extend(context.warning().map(|text| format!("{target}: {text}")));
        }
    }
    Ok(warnings)
}

/// Returns a note for each Kubernetes API that is reached through a proxy.
///
/// # Errors
/// [`Failure`] with exit code 2 for a URL or a proxy that cannot be used.
fn proxies(launcher: &Launcher, targets: &[Target]) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    for target in targets {
        if let TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) = target.spec {
            let (url, access) = launcher.kube_of(&target.spec).map_err(Failure::usage)?;
            let proxy = access.proxy_of(&url);
            // It does not connect; it refuses proxies that cannot be used.
            Connection::new(&url, access, Options::default()).map_err(Failure::usage)?;
            if let Some(proxy) = proxy {
                notes.push(format!(
                    "{target}: through the proxy {proxy}, whose time is in every latency"
                ));
            }
        }
    }
    Ok(notes)
}

/// Returns on how many starts each case is measured.
///
/// # Errors
/// [`Failure`] with exit code 2 where several are not possible: a target is an existing endpoint, a
/// search for the highest rate has repeats of its own, or the load begins at a set moment.
fn starts(args: &RunArgs, is_search: bool, targets: &[Target]) -> Result<NonZeroU32, Failure> {
    let starts = args
        .starts
        .and_then(NonZeroU32::new)
        .unwrap_or(NonZeroU32::MIN);
    if starts == NonZeroU32::MIN {
        return Ok(starts);
    }
    if let Some(there) = targets.iter().find(|target| !target.spec.is_started()) {
        return Err(Failure::usage(anyhow!(
            "--starts needs servers that loadgen starts, and `{there}` is an existing endpoint: use `loadgen run` {starts} times, then `loadgen compare`"
        )));
    }
    if is_search {
        return Err(Failure::usage(anyhow!(
            "saturate repeats its search with --searches: remove --starts"
        )));
    }
    if args.start_at.is_some() {
        return Err(Failure::usage(anyhow!(
            "--start-at is one moment, and {starts} starts begin at several: remove --starts"
        )));
    }
    Ok(starts)
}
