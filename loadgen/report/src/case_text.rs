//! A case in words: the same cells for the terminal, the page and the README.
//!
//! - [`notes`](self::notes()): the sentences in the last cell

mod notes;
mod sharding;

use serde::Serialize;

use crate::quantity::{ABSENT, Quantity, step_of};
use crate::result::{Case, Cold, Quantiles, ServedFrom, ServerFigures};

pub use notes::{notes, warnings};

/// Titles of the cells, in order. Those of numbers name what the number is; its unit stands beside
/// it.
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

/// What the first list took before everything was warm.
pub const FIRST_LIST: &str = "first list, cold: time · above idle";

/// Kernel memory of sockets.
pub const SOCKETS: &str = "sockets above idle";

/// Which of the cells holds the notes: the last, and the only one that is a sentence.
pub const NOTES: usize = TITLES.len() - 1;

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseRow {
    /// In the order of [`TITLES`].
    pub cells: [String; TITLES.len()],
    /// False when the row must not be ranked: not measured, invalid, or wrong.
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

/// Returns the strategy as rows show it: with its clients where there are several at once, and what
/// else sets it apart.
#[must_use]
pub fn strategy(case: &Case) -> String {
    let mut text = vec![strategy_and_clients(case)];
    text.extend(case.options());
    text.join(", ")
}

/// Returns the strategy with its clients only, where there is little room.
pub(super) fn strategy_and_clients(case: &Case) -> String {
    match case.clients {
        0 | 1 => case.strategy.clone(),
        clients => format!("{} × {clients} clients", case.strategy),
    }
}

/// Returns the private memory above idle at its peak, and beside it how much pages of mapped files
/// grew.
pub(super) fn peak(server: &ServerFigures) -> String {
    let private = Quantity::bytes_within(server.peak_above_idle, server.rss_resolution);
    match server.mapped_above_idle() {
        Some(mapped) => format!("{private} (+ {} of files)", Quantity::bytes(mapped)),
        None => private.to_string(),
    }
}

/// Returns the private memory above idle at its peak over the bytes of the lists in flight, to what
/// its counter can tell.
pub(super) fn per_listed_byte(case: &Case) -> Option<Quantity> {
    let server = case.server.as_ref()?;
    let in_flight = case.bytes * u64::from(case.clients.max(1));
    let least = server.rss_resolution.map_or(0.0, step_of) / in_flight as f64;
    let ratio = server.peak_per_listed_byte?;
    Some(Quantity::PerByteFrom(ratio, least))
}

/// Returns the CPU time of the server for one request. Of several loads at once, where no request
/// has a cost of its own, the cores that the server used on average.
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

/// Returns [`server_cpu`], that of a small request with the rate at which it was, since that
/// decides what it costs.
fn server_cpu_and_rate(case: &Case) -> Option<String> {
    let cpu = server_cpu(case)?;
    let is_of_one = case.server.as_ref()?.cpu_s_per_request.is_some();
    Some(match case.requests_per_s.filter(|_| is_of_one) {
        Some(rate) => format!("{cpu} at {}", Quantity::PerSecond(rate)),
        None => cpu,
    })
}

/// Returns what the first list took, and its peak.
fn first_list(case: &Case, cold: &Cold) -> String {
    let time = Quantity::Milliseconds(cold.ms);
    let resolution = case.server.as_ref().and_then(|s| s.rss_resolution);
    match cold.peak_above_idle {
        Some(above) => format!("{time} · {}", Quantity::bytes_within(above, resolution)),
        None => time.to_string(),
    }
}

/// Returns by how much the kernel's memory of sockets grew.
fn sockets(server: &ServerFigures) -> String {
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
