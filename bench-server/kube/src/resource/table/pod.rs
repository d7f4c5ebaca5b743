//! Columns and cells of pods, including a one-word summary of the states of their containers.

use kube_api::duration::human_duration;

use super::cells::{AGE, Cells, Column, NAME, column, wide};
use super::message::Message;

pub(super) static COLUMNS: [Column; 9] = [
    NAME,
    column("Ready", "Containers that are ready, of how many."),
    column("Status", "What holds the pod up, or its phase."),
    column("Restarts", "How often containers were started again."),
    AGE,
    wide("IP", "First address of the pod."),
    wide("Node", "Where it runs."),
    wide("Nominated Node", "Where the scheduler makes room for it."),
    wide("Readiness Gates", "Conditions that hold, of how many."),
];

/// A summary of the states of a pod's containers.
struct Summary {
    ready: usize,
    reason: String,
    restarts: Restarts,
}

/// The number of container restarts, and the time of the latest termination before a restart.
#[derive(Default, Clone, Copy)]
struct Restarts {
    count: i64,
    last: Option<i64>,
}

impl Restarts {
    fn add(&mut self, container: Message<'_>) {
        self.count += container.int(5);
        self.last = self.last.max(last_termination(container));
    }
}

/// Appends the condition of a pod that has completed.
pub(super) fn put_conditions(pod: Message<'_>, out: &mut Vec<u8>) {
    let (reason, message) = match pod.message(3).text(1) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return,
    };
    let condition = format!(
        ",\"conditions\":[{{\"type\":\"Completed\",\"status\":\"True\",\"reason\":\"{reason}\",\"message\":\"{message}\"}}]"
    );
    out.extend_from_slice(condition.as_bytes());
}

pub(super) fn put(pod: Message<'_>, cells: &mut Cells<'_>) {
    let (spec, status) = (pod.message(2), pod.message(3));
    let summary = summary(pod);
    let sidecars = spec.all(20).filter(|container| is_sidecar(*container));
    let total = spec.count(2) + sidecars.count();
    cells.name(pod);
    cells.text(&format!("{}/{total}", summary.ready));
    cells.text(&summary.reason);
    let restarts = summary.restarts;
    cells.text(&match restarts.last {
        Some(at) if restarts.count != 0 => {
            format!(
                "{} ({} ago)",
                restarts.count,
                human_duration(cells.now - at)
            )
        }
        _ => restarts.count.to_string(),
    });
    cells.age(pod);
    let address = status
        .find(12)
        .map_or(status.text(6), |first| first.text(1));
    cells.or_none(address);
    cells.or_none(spec.text(10));
    cells.or_none(status.text(11));
    let gates = spec.count(28);
    let passed = spec
        .all(28)
        .filter(|gate| condition(status, gate.text(1)) == Some("True"))
        .count();
    cells.or_none(&match gates {
        0 => String::new(),
        gates => format!("{passed}/{gates}"),
    });
}

fn summary(pod: Message<'_>) -> Summary {
    let status = pod.message(3);
    let mut summary = Summary {
        ready: 0,
        reason: match status.text(4) {
            "" => status.text(1).to_owned(),
            reason => reason.to_owned(),
        },
        restarts: Restarts::default(),
    };
    let gated = |condition: Message<'_>| {
        (condition.text(1), condition.text(5)) == ("PodScheduled", "SchedulingGated")
    };
    if status.all(2).any(gated) {
        summary.reason = "SchedulingGated".to_owned();
    }
    let (initializing, sidecars) = summary.initialize(pod);
    if !initializing || condition(status, "Initialized") == Some("True") {
        // Of the init containers only sidecars count, which run alongside the other containers.
        summary.restarts = sidecars;
        summary.run(status);
    }
    // Set while a deletion waits for the kubelet.
    if pod.metadata().find(9).is_some() {
        if status.text(4) == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(status.text(1), "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

impl Summary {
    /// Reads the init containers up to the first that has not completed. Returns whether there is
    /// such a container, and the restarts of the sidecars up to it.
    fn initialize(&mut self, pod: Message<'_>) -> (bool, Restarts) {
        let (spec, status) = (pod.message(2), pod.message(3));
        let mut sidecars = Restarts::default();
        for (i, container) in status.all(10).enumerate() {
            self.restarts.add(container);
            let sidecar = spec
                .all(20)
                .any(|known| known.text(1) == container.text(1) && is_sidecar(known));
            if sidecar {
                sidecars.add(container);
            }
            let state = container.message(2);
            if state.find(3).is_some_and(|ended| ended.int(1) == 0) {
                continue;
            }
            if sidecar && container.flag(9) {
                self.ready += usize::from(container.flag(4));
                continue;
            }
            self.reason = match (state.find(3), state.find(1)) {
                (Some(ended), _) => format!("Init:{}", ended_reason(ended)),
                (None, Some(waiting)) if !matches!(waiting.text(1), "" | "PodInitializing") => {
                    format!("Init:{}", waiting.text(1))
                }
                _ => format!("Init:{i}/{}", spec.count(20)),
            };
            return (true, sidecars);
        }
        (false, sidecars)
    }

    fn run(&mut self, status: Message<'_>) {
        let (mut running, mut error) = (false, None);
        let containers: Vec<_> = status.all(8).collect();
        for container in containers.into_iter().rev() {
            self.restarts.add(container);
            let state = container.message(2);
            match (state.find(1), state.find(3)) {
                (Some(waiting), _) if !waiting.text(1).is_empty() => {
                    self.reason = waiting.text(1).to_owned();
                }
                (_, Some(ended)) => {
                    self.reason = ended_reason(ended);
                    if ended.int(1) != 0 {
                        error = Some(self.reason.clone());
                    }
                }
                _ if container.flag(4) && state.find(2).is_some() => {
                    running = true;
                    self.ready += 1;
                }
                _ => {}
            }
        }
        // The reason `Completed` of one container says nothing about the others.
        if self.reason == "Completed" {
            let ready = condition(status, "Ready") == Some("True");
            let other = match (running, ready) {
                (true, true) => Some("Running".to_owned()),
                (true, false) => error.or(Some("NotReady".to_owned())),
                (false, _) => error,
            };
            self.reason = other.unwrap_or_else(|| std::mem::take(&mut self.reason));
        }
    }
}

fn last_termination(container: Message<'_>) -> Option<i64> {
    container.message(3).find(3)?.seconds(6)
}

fn ended_reason(ended: Message<'_>) -> String {
    match (ended.text(3), ended.int(2)) {
        ("", 0) => format!("ExitCode:{}", ended.int(1)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Returns whether an init container is a sidecar, which runs alongside the other containers.
fn is_sidecar(container: Message<'_>) -> bool {
    container.text(24) == "Always"
}

/// Returns the status of a condition.
fn condition<'a>(status: Message<'a>, name: &str) -> Option<&'a str> {
    let mut conditions = status.all(2);
    conditions
        .find(|condition| condition.text(1) == name)
        .map(|condition| condition.text(2))
}
