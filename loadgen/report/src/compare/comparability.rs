//! The conditions that must be equal before two numbers can be compared: the machine, the build,
//! the network's congestion control, the objects, and how they were encoded and checked.

use std::fmt;

use clap::ValueEnum;

use super::matching::Occurrence;
use crate::quantity::Quantity;
use crate::result::{Environment, SavedResult, ServerSetup};

/// The relative difference up to which two memory sizes count as equal, since different kernels
/// report slightly different sizes for the same machine.
const MEMORY_DIFFERS: f64 = 0.01;

/// A condition that must be the same on both sides, unless it is allowed to differ. The objects,
/// their number and their fingerprint are not among these conditions: they may never differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Condition {
    /// The machine: host, CPU, cores, memory, CPUs of servers and generator.
    Machine,
    /// TCP's congestion control.
    CongestionControl,
    /// Release or debug build.
    Build,
    /// How lists are decoded, and by which client program.
    Client,
    /// Whether writes wait for the disk.
    Fsync,
    /// How the server encodes its responses.
    Encoding,
    /// Whether memory and CPU are read from the server's process or from the metrics that it
    /// exports.
    Source,
}

/// A difference that prevents a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The condition that is violated; `None` if the objects differ.
    pub condition: Option<Condition>,
    /// What differs, as `the encoding`.
    pub what: String,
    /// Its value in the base.
    pub base: String,
    /// Its value in the new result.
    pub new: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what, base, new, ..
        } = self;
        write!(
            f,
            "{what} is {base} in the base and {new} in the new result"
        )
    }
}

impl Difference {
    /// Returns the difference between two values. A missing value is no difference.
    fn of(
        condition: impl Into<Option<Condition>>,
        what: &str,
        base: Option<String>,
        new: Option<String>,
    ) -> Option<Self> {
        let (base, new) = base.zip(new)?;
        let condition = condition.into();
        let is_told = !base.is_empty() && !new.is_empty();
        (is_told && base != new).then(|| Self {
            condition,
            what: what.to_owned(),
            base,
            new,
        })
    }
}

/// Returns the differences between two runs that concern all their cases.
pub(crate) fn of_runs(base: &SavedResult, new: &SavedResult) -> Vec<Difference> {
    let (base, new) = (&base.report.environment, &new.report.environment);
    let text = |of: fn(&Environment) -> String| (Some(of(base)), Some(of(new)));
    let all_cpus = |cpus: &Option<String>| Some(cpus.clone().unwrap_or_else(|| "all".to_owned()));
    let machine = [
        ("the host", text(|of| of.host.clone())),
        ("the architecture", text(|of| of.machine.clone())),
        ("the CPU", text(|of| of.cpu_model.clone())),
        ("the number of cores", text(|of| of.cores.to_string())),
        ("the machine's memory", memory(base, new)),
        (
            "the servers' set of CPUs",
            (all_cpus(&base.server_cpus), all_cpus(&new.server_cpus)),
        ),
        (
            "the generator's set of CPUs",
            (all_cpus(&base.client_cpus), all_cpus(&new.client_cpus)),
        ),
    ];
    let machine = machine.map(|(what, values)| (Condition::Machine, what, values));
    let rest = [
        (
            Condition::CongestionControl,
            "TCP's congestion control",
            (
                base.congestion_control.clone(),
                new.congestion_control.clone(),
            ),
        ),
        (
            Condition::Build,
            "the generator's build",
            text(|of| of.profile.clone()),
        ),
        (
            Condition::Client,
            "decoding",
            text(|of| of.client.decode_mode.clone()),
        ),
    ];
    let all = machine.into_iter().chain(rest);
    all.filter_map(|(condition, what, (base, new))| Difference::of(condition, what, base, new))
        .collect()
}

/// Returns both memory sizes where they differ by more than [`MEMORY_DIFFERS`], otherwise `None`.
fn memory(base: &Environment, new: &Environment) -> (Option<String>, Option<String>) {
    let (a, b) = (base.memory_bytes as f64, new.memory_bytes as f64);
    let is_told = a > 0.0 && b > 0.0;
    match is_told && (a - b).abs() > MEMORY_DIFFERS * a.max(b) {
        true => {
            let shown = |bytes| Some(Quantity::Bytes(bytes).to_string());
            (shown(a), shown(b))
        }
        false => (None, None),
    }
}

/// Returns the differences between the same work in two results that prevent a comparison.
pub(super) fn of_cases(base: Occurrence<'_>, new: Occurrence<'_>) -> Vec<Difference> {
    let mut found = Vec::new();
    if let Some((a, b)) = base.data_set.zip(new.data_set) {
        let count = |objects| Some(Quantity::Count(objects).to_string());
        let bytes = |bytes: u64| Some(bytes.to_string());
        let fingerprint = |fingerprint: &Option<String>| {
            let known = fingerprint.clone();
            Some(known.unwrap_or_else(|| "unknown".to_owned()))
        };
        found.extend([
            Difference::of(
                None,
                "the number of objects",
                count(a.objects),
                count(b.objects),
            ),
            Difference::of(
                None,
                "the objects' size in bytes",
                bytes(a.bytes),
                bytes(b.bytes),
            ),
            Difference::of(
                None,
                "the objects' fingerprint",
                fingerprint(&a.fingerprint),
                fingerprint(&b.fingerprint),
            ),
        ]);
    }
    let fsync = |of: Occurrence<'_>| {
        let waits = setup(of)?.fsync?;
        let state = if waits { "on" } else { "off" };
        Some(state.to_owned())
    };
    let program = |of: Occurrence<'_>| {
        let client = of.case.client.as_ref()?;
        let own = || "the generator".to_owned();
        Some(client.program.clone().unwrap_or_else(own))
    };
    let source = |of: Occurrence<'_>| {
        let server = of.case.server.as_ref()?;
        let source = match server.is_self_reported {
            true => "what the server exports",
            false => "its process",
        };
        Some(source.to_owned())
    };
    found.extend([
        Difference::of(
            Condition::Encoding,
            "the encoding",
            encoding(base, new),
            encoding(new, base),
        ),
        Difference::of(Condition::Fsync, "fsync", fsync(base), fsync(new)),
        Difference::of(Condition::Client, "the client", program(base), program(new)),
        Difference::of(
            Condition::Source,
            "the source of memory and CPU",
            source(base),
            source(new),
        ),
    ]);
    found.into_iter().flatten().collect()
}

/// Returns how a server encodes. `buffered` and `incremental` send the same bytes, so between two
/// different servers they count as equal: the choice is part of what is compared. Between two runs
/// of one server a difference is a changed setting.
fn encoding(of: Occurrence<'_>, other: Occurrence<'_>) -> Option<String> {
    let encoding = of.case.encoding.clone()?;
    let is_same_bytes = ["buffered", "incremental"].contains(&encoding.as_str());
    match is_same_bytes && of.case.target != other.case.target {
        true => Some("raw".to_owned()),
        false => Some(encoding),
    }
}

/// Returns the setup of a case's target in the run of that case.
pub(super) fn setup(of: Occurrence<'_>) -> Option<&ServerSetup> {
    let mut servers = of.result.report.environment.servers.iter();
    servers.find(|server| server.target == of.case.target)
}
