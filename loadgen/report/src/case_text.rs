//! A case as text: the same cells for the terminal, the page and the README.
//!
//! - [`notes`](self::notes()): the sentences of the last cell

mod notes;
mod sharding;

use serde::Serialize;

use crate::quantity::{ABSENT, Quantity, step_of};
use crate::result::{Case, Cold, Quantiles, ServedFrom, ServerMetrics};

pub use notes::{notes, warnings};

/// Titles of the cells, in order. Titles of numbers name the quantity; the unit is part of the
/// cell.
pub const TITLES: [&str; 14] = [
    "target",
    "tier",
    "strategy",
    "encoding",
    "n",
    "time p50 · p99",
    "min … max",
    FIRST_LIST,
    "first chunk p50 · p99",
    "peak above idle",
    "per listed byte",
    SOCKETS,
    "server CPU per request",
    "notes",
];

/// Title of the first list, sent before caches and memory were warm.
pub const FIRST_LIST: &str = "first list, cold: time · above idle";

/// Title of the kernel memory of sockets.
pub const SOCKETS: &str = "sockets above idle";

/// The index of the cell with the notes: the last, and the only one that contains sentences.
pub const NOTES: usize = TITLES.len() - 1;

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseRow {
    /// The cells, in the order of [`TITLES`].
    pub cells: [String; TITLES.len()],
    /// False when the row must not be ranked because the case was not measured, is invalid, or had
    /// errors.
    pub counts: bool,
}

impl CaseRow {
    /// Returns a case's row.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        let absent = || ABSENT.to_owned();
        let server = case.server.as_ref();
        let latency = case.latency_ms.as_ref();
        Self {
            cells: [
                case.target.clone(),
                case.tier.to_string(),
                strategy(case),
                encoding(case),
                latency.map_or_else(absent, |latency| Quantity::Count(latency.n).to_string()),
                latency.map_or_else(absent, median_and_p99),
                latency.map_or_else(absent, extremes),
                case.cold
                    .map_or_else(absent, |cold| first_list(case, &cold)),
                case.first_chunk_ms
                    .as_ref()
                    .map_or_else(absent, median_and_p99),
                server.map_or_else(absent, peak),
                Quantity::or_absent(per_listed_byte(case)),
                server.map_or_else(absent, sockets),
                server_cpu_and_rate(case).unwrap_or_else(absent),
                notes(case).join("; "),
            ],
            counts: case.counts(),
        }
    }
}

/// Returns the strategy as rows show it: with the number of clients if there are several, and the
/// other settings that distinguish the case.
#[must_use]
pub fn strategy(case: &Case) -> String {
    let mut text = vec![strategy_and_clients(case)];
    text.extend(case.options());
    text.join(", ")
}

/// Returns the strategy with only the number of clients, where there is little room.
pub(super) fn strategy_and_clients(case: &Case) -> String {
    match case.clients {
        0 | 1 => case.strategy.clone(),
        clients => format!("{} × {clients} clients", case.strategy),
    }
}

/// Returns the peak of private memory above idle, and the growth of pages of mapped files.
pub(super) fn peak(server: &ServerMetrics) -> String {
    let private = Quantity::bytes_within(server.peak_above_idle, server.rss_resolution);
    match server.mapped_above_idle() {
        Some(mapped) => format!("{private} (+ {} of files)", Quantity::bytes(mapped)),
        None => private.to_string(),
    }
}

/// Returns the peak of private memory above idle divided by the bytes of the lists in flight, as
/// far as the counter's resolution permits.
pub(super) fn per_listed_byte(case: &Case) -> Option<Quantity> {
    let server = case.server.as_ref()?;
    let in_flight = case.bytes * u64::from(case.clients.max(1));
    let least = server.rss_resolution.map_or(0.0, step_of) / in_flight as f64;
    let ratio = server.peak_per_listed_byte?;
    Some(Quantity::PerByteFrom(ratio, least))
}

/// Returns the CPU time of the server per request. If several loads ran together, where no single
/// request has a cost, it returns the average number of cores that the server used.
pub(super) fn server_cpu(case: &Case) -> Option<String> {
    let server = case.server.as_ref()?;
    if let Some(cpu_s) = server.cpu_s_per_request {
        return Some(Quantity::seconds(cpu_s).to_string());
    }
    let measured_s = case.rounds.iter().map(|round| round.ms).sum::<f64>() / 1e3;
    let cpu_s = server.cpu_s.filter(|&cpu_s| cpu_s > 0.0)?;
    let is_known = !case.loads.is_empty() && measured_s > 0.0;
    is_known.then(|| format!("{:.2} cores", cpu_s / measured_s))
}

/// Returns [`server_cpu`]. The CPU time of a small request depends on the rate, so the rate is
/// appended.
fn server_cpu_and_rate(case: &Case) -> Option<String> {
    let cpu = server_cpu(case)?;
    let is_of_one = case.server.as_ref()?.cpu_s_per_request.is_some();
    Some(match case.requests_per_s.filter(|_| is_of_one) {
        Some(rate) => format!("{cpu} at {}", Quantity::PerSecond(rate)),
        None => cpu,
    })
}

/// Returns the time and the peak of the first list.
fn first_list(case: &Case, cold: &Cold) -> String {
    let time = Quantity::Milliseconds(cold.ms);
    let resolution = case.server.as_ref().and_then(|s| s.rss_resolution);
    match cold.peak_above_idle {
        Some(above) => format!("{time} · {}", Quantity::bytes_within(above, resolution)),
        None => time.to_string(),
    }
}

/// Returns the growth of the kernel's memory of sockets.
fn sockets(server: &ServerMetrics) -> String {
    let grown = server.sockets_above_idle();
    Quantity::or_absent(grown.map(|bytes| Quantity::bytes_within(bytes, server.socket_resolution)))
}

fn encoding(case: &Case) -> String {
    let from = match case.served_from {
        ServedFrom::WatchCache => ", from cache",
        ServedFrom::Store | ServedFrom::Unknown => "",
    };
    case.encoding
        .as_ref()
        .map_or_else(|| ABSENT.to_owned(), |encoding| format!("{encoding}{from}"))
}

fn milliseconds(ms: Option<f64>) -> String {
    Quantity::or_absent(ms.map(Quantity::Milliseconds))
}

fn median_and_p99(quantiles: &Quantiles) -> String {
    format!(
        "{} · {}",
        milliseconds(quantiles.p50),
        milliseconds(quantiles.p99)
    )
}

fn extremes(quantiles: &Quantiles) -> String {
    match (quantiles.min, quantiles.max) {
        (Some(min), Some(max)) => format!(
            "{} … {}",
            Quantity::Milliseconds(min),
            Quantity::Milliseconds(max)
        ),
        _ => ABSENT.to_owned(),
    }
}

#[cfg(test)]
mod tests;
