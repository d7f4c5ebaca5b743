//! A case in words: the same cells for the terminal, the page and the README.

use serde::Serialize;

use crate::quantity::{ABSENT, Quantity, step_of};
use crate::result::{
    Baseline, Case, ClientFigures, Cold, Outcome, PROFILED, Quantiles, Saturation, ServedFrom,
    ServerFigures, Sharding, Spread,
};

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

/// Returns everything that a reader must know about the row: [`warnings`], its rate, and what ran
/// beside it.
#[must_use]
pub fn notes(case: &Case) -> Vec<String> {
    let mut notes = warnings(case);
    match &case.shards {
        Some(shards) => notes.extend(shared(case, shards)),
        // What several loads did is in a table of its own.
        None if !case.loads.is_empty() => {}
        None => notes.extend(pace(case)),
    }
    notes.extend(case.saturation.iter().map(saturation));
    notes.extend(case.client.as_ref().and_then(program));
    if case.server.as_ref().is_some_and(|s| s.is_own_word) {
        notes.push(
            "the server's figures are from its metrics page: memory as it was between lists, pages of files included"
                .to_owned(),
        );
    }
    if case.server.is_none() && case.outcome == Outcome::Measured {
        // Of every server that was started there are figures.
        notes.push(
            "memory and CPU of the server are not known: it was there already and does not tell them"
                .to_owned(),
        );
    }
    let missing = case.missing_figures.iter();
    notes.extend(missing.map(|missing| format!("not known: {missing}")));
    notes.extend(case.baseline.as_ref().map(beside_its_bytes));
    for load in &case.background {
        notes.push(format!(
            "the server's figures include {}: {} by {} clients, {} requests",
            load.name,
            load.strategy,
            Quantity::Count(load.clients.into()),
            Quantity::Count(load.requests)
        ));
    }
    notes
}

/// Returns up to which rate an objective is kept, and how sure that is.
fn saturation(found: &Saturation) -> String {
    let objective = &found.objective;
    let rate = |rate: f64| Quantity::PerSecond(rate).to_string();
    let searches = &found.searches;
    let by = match searches.iter().any(|search| search.generator_gave_out) {
        true => "; THE GENERATOR gave out, not the target",
        false => "",
    };
    let lower = searches.iter().filter_map(|search| search.lower_per_s);
    let upper = searches.iter().filter_map(|search| search.upper_per_s);
    let Some(kept) = found.kept_per_s else {
        return match upper.reduce(f64::min) {
            Some(missed) => format!(
                "{objective} is missed at the lowest rate, {}{by}",
                rate(missed)
            ),
            None => format!("whether {objective} is kept was not found out"),
        };
    };
    let mut text = format!("{objective} is kept up to {}", rate(kept));
    if searches.len() > 1 {
        let lowest = lower.clone().fold(f64::INFINITY, f64::min);
        let highest = lower.fold(0.0, f64::max);
        text.push_str(&format!(
            " (median of {} searches, {} to {})",
            searches.len(),
            rate(lowest),
            rate(highest)
        ));
    }
    match upper.reduce(f64::min) {
        Some(missed) => text.push_str(&format!(", and missed at {}{by}", rate(missed))),
        None => text.push_str(", the highest rate that was tried"),
    }
    text
}

/// Returns what a list cost a client that is a program of its own.
fn program(client: &ClientFigures) -> Option<String> {
    let name = client.program.as_ref()?;
    let cpu = Quantity::seconds(client.cpu_s_per_request?);
    let peak = Quantity::or_absent(client.rss_peak.map(Quantity::bytes));
    Some(format!("{name} took {cpu} of CPU and up to {peak}"))
}

/// Returns what a reader must know before comparing the row: why it was not measured, what limits
/// it.
#[must_use]
pub fn warnings(case: &Case) -> Vec<String> {
    let mut notes = Vec::new();
    match &case.outcome {
        Outcome::Measured if !case.valid && case.errors == 0 => notes.push("invalid".to_owned()),
        Outcome::Measured => {}
        Outcome::NotApplicable { reason } => notes.push(format!("N/A: {reason}")),
        Outcome::Failed { reason } => notes.push(format!("FAILED: {reason}")),
        Outcome::Invalid { reason } => notes.push(format!("INVALID: {reason}")),
        Outcome::Stopped { reason } => notes.push(format!("STOPPED: {reason}")),
        Outcome::Interrupted => notes.push("interrupted".to_owned()),
    }
    if case.saturated {
        let refused = match case.errors {
            0 => String::new(),
            errors => format!(
                ", and refused or did not answer {} requests",
                Quantity::Count(errors)
            ),
        };
        notes.push(format!(
            "SATURATED: it did not keep the rate{refused}; times grow for as long as the load lasts"
        ));
    } else if case.errors > 0 {
        notes.push(format!(
            "{} of {} requests wrong",
            Quantity::Count(case.errors),
            Quantity::Count(case.requests)
        ));
    }
    if case.client_limited {
        let unchecked = case
            .null_sink_ms
            .as_ref()
            .and_then(|quantiles| quantiles.p50);
        let mut note = format!(
            "client-limited: {} without checking",
            milliseconds(unchecked)
        );
        if let Some(Spread {
            min,
            p50,
            max,
            likely,
        }) = case.checking_ratio
        {
            // Where the median may lie is known of six rounds and more.
            let [lower, upper] = likely.unwrap_or([min, max]);
            let [lower, p50, upper] = [lower, p50, upper].map(Quantity::PerByte);
            note.push_str(&format!(", interleaved {p50} ({lower} … {upper})"));
        }
        notes.push(note);
    }
    if case.is_profiled() {
        notes.push(PROFILED.to_owned());
    }
    if case.restarts > 0 {
        notes.push(format!(
            "begun again {} times after a compaction, {} of tries that are in no time",
            case.restarts,
            milliseconds(case.restarted_ms)
        ));
    }
    if let Some(clamped) = case
        .latency_ms
        .as_ref()
        .map(|latency| latency.clamped)
        .filter(|&clamped| clamped > 0)
    {
        notes.push(format!("{clamped} lists took over an hour"));
    }
    notes
}

/// Returns how the objects were shared, and what came of it.
fn shared(case: &Case, shards: &Sharding) -> Vec<String> {
    let cpu = |seconds: Option<f64>| Quantity::or_absent(seconds.map(Quantity::seconds));
    let mut notes = vec![format!(
        "shards by {}, {}: the largest has {} objects, {} the mean, {}; busiest worker {} CPU, largest {}",
        shards.key,
        shards.plan,
        Quantity::Count(shards.objects_max),
        Quantity::PerByte(shards.objects_skew),
        Quantity::bytes(shards.bytes_max),
        cpu(Some(shards.worker_cpu_s_max)),
        Quantity::or_absent(shards.worker_memory_max.map(Quantity::bytes)),
    )];
    if let Some((most, whole)) = shards.server_cpu_s_max.zip(shards.server_cpu_s_whole) {
        let part = shards.server_cpu_part_max.map(Quantity::PerByte);
        notes.push(format!(
            "one shard by itself: up to {} of server CPU, {} everything's {} in {} rounds of both",
            cpu(Some(most)),
            Quantity::or_absent(part),
            cpu(Some(whole)),
            shards.alone_rounds,
        ));
    }
    if let Some(events) = &shards.events {
        notes.push(format!(
            "state at the last worker after {} and {} of server CPU",
            milliseconds(shards.synced_ms.as_ref().and_then(|q| q.p50.or(q.mean))),
            cpu(shards.sync_server_cpu_s),
        ));
        notes.push(format!(
            "{} writes at {}, {} events delivered, {} dropped, {} thrown away; {} at the worker with most; {} reconnected",
            Quantity::Count(events.writes),
            Quantity::or_absent(case.requests_per_s.map(Quantity::PerSecond)),
            Quantity::Count(events.delivered),
            Quantity::Count(events.dropped),
            Quantity::Count(events.filtered),
            Quantity::bytes(events.bytes_max),
            Quantity::Count(events.reconnects),
        ));
        if events.ended > 0 {
            notes.push(format!(
                "{} watches fell behind, were ended by the server and resumed",
                Quantity::Count(events.ended)
            ));
        }
    }
    let part = |part: f64| format!("{:.1} %", part * 100.0);
    if let Some(resharding) = &shards.resharding {
        notes.push(format!(
            "one worker more ({}) moved {} of the objects: {} listed again, {}, the last new shard synced after {}",
            resharding.plan,
            part(resharding.moved),
            Quantity::Count(resharding.objects_listed),
            Quantity::bytes(resharding.bytes_listed),
            milliseconds(Some(resharding.synced_ms)),
        ));
        return notes;
    }
    if let Some((moved, least)) = shards.moved_to_next.zip(shards.least_moved) {
        notes.push(format!(
            "one worker more moves {} of the objects, {} where it takes from each",
            part(moved),
            part(least)
        ));
    }
    notes
}

/// Returns what a row of small requests has besides its latency, or of events.
fn pace(case: &Case) -> Option<String> {
    let client = case.client.as_ref();
    let own = client.and_then(|client| client.cpu_s_per_request);
    let own = Quantity::or_absent(own.map(Quantity::seconds));
    if case.watchers.is_some() {
        return Some(format!(
            "a put to its event at each watcher; generator CPU {own} per put"
        ));
    }
    let rate = Quantity::PerSecond(case.requests_per_s?);
    let Some(offered) = case.offered_per_s else {
        return Some(format!("{rate}, generator CPU {own} each"));
    };
    let p99 = |quantiles: Option<&Quantiles>| milliseconds(quantiles.and_then(|q| q.p99));
    Some(format!(
        "{rate} of {} intended; p99 from sending, not from the intended start: {}; sent late by {} (p99); generator CPU {own} each",
        Quantity::PerSecond(offered),
        p99(case.service_ms.as_ref()),
        p99(client.and_then(|client| client.lag_ms.as_ref())),
    ))
}

/// Returns the time of a list over that of its baseline, interleaved.
fn beside_its_bytes(of: &Baseline) -> String {
    let Spread { min, p50, max, .. } = of.time_ratio;
    let how = if of.checked { "checked" } else { "unchecked" };
    let cpu = of
        .server_cpu_ratio
        .map(|ratio| Quantity::PerByte(ratio.p50));
    let list_cpu = of.list_server_cpu_ms.map(|cpu| cpu.p50);
    let socket = of.socket_time_ratio.map_or_else(String::new, |ratio| {
        format!("; over a plain socket: {}", Quantity::PerByte(ratio.p50))
    });
    format!(
        "{how}, interleaved with a baseline (its bytes from one contiguous buffer over the same HTTP), {} rounds: {} and {}, server CPU of a list {}; list over baseline in a round: {} ({} … {}), of server CPU {}{socket}",
        of.rounds.len(),
        milliseconds(Some(of.list_ms.p50)),
        milliseconds(Some(of.body_ms.p50)),
        milliseconds(list_cpu),
        Quantity::PerByte(p50),
        Quantity::PerByte(min),
        Quantity::PerByte(max),
        Quantity::or_absent(cpu),
    )
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
mod tests {
    use super::*;
    use crate::result::{Load, Round};
    use workloads::strategy::Tier;

    #[test]
    fn a_row_that_was_not_measured_has_dashes_and_its_reason() {
        let outcome = Outcome::NotApplicable {
            reason: "etcd 3.4 has no RangeStream".into(),
        };
        let row = CaseRow::of(&Case::new("pods", "etcd", Tier::Etcd, "stream", outcome));
        assert!(!row.counts);
        assert_eq!(&row.cells[..4], ["etcd", "etcd", "stream", "–"]);
        assert!(
            row.cells[4..NOTES].iter().all(|cell| cell == "–"),
            "{row:?}"
        );
        assert_eq!(row.cells[NOTES], "N/A: etcd 3.4 has no RangeStream");
    }

    #[test]
    fn private_memory_and_files_are_two_figures_of_a_row() {
        let mut server = ServerFigures {
            peak_above_idle: 876 << 10,
            rss_file_idle: Some(50 << 20),
            rss_file_peak: Some(52 << 20),
            rss_resolution: Some(256 << 10),
            socket_idle: Some(1 << 20),
            socket_peak: Some(14 << 20),
            socket_resolution: Some(2 << 20),
            ..ServerFigures::default()
        };
        assert_eq!(peak(&server), "< 1 MiB");
        assert_eq!(sockets(&server), "14 MiB");
        server.rss_file_peak = Some(1_330 << 20);
        assert_eq!(peak(&server), "< 1 MiB (+ 1.25 GiB of files)");
        server.socket_peak = None;
        assert_eq!(sockets(&server), "–");
    }

    #[test]
    fn a_peak_that_its_counter_cannot_tell_is_no_part_of_the_bytes() {
        let mut case = Case::new("pods", "bench", Tier::Etcd, "stream", Outcome::Measured);
        assert_eq!(per_listed_byte(&case), None);
        (case.bytes, case.clients) = (50 << 20, 2);
        case.server = Some(ServerFigures {
            peak_above_idle: 876 << 10,
            peak_per_listed_byte: Some(0.0086),
            rss_resolution: Some(256 << 10),
            ..ServerFigures::default()
        });
        let shown = |case: &Case| Quantity::or_absent(per_listed_byte(case));
        assert_eq!(shown(&case), "< 0.010 ×", "1 MiB of 100");
        case.clients = 1;
        if let Some(server) = &mut case.server {
            server.peak_per_listed_byte = Some(0.5);
        }
        assert_eq!(shown(&case), "0.500 ×");
    }

    #[test]
    fn loads_that_ran_together_show_the_cores_that_the_server_used() {
        let mut server = ServerFigures {
            cpu_s: Some(4.3),
            ..ServerFigures::default()
        };
        let mut case = Case::new("pods", "bench", Tier::Etcd, "mix", Outcome::Measured);
        case.rounds = vec![Round {
            ms: 10_000.0,
            server_cpu_ms: None,
        }];
        let mut shown = |case: &mut Case, cpu_s_per_request| {
            server.cpu_s_per_request = cpu_s_per_request;
            case.server = Some(server.clone());
            server_cpu(case)
        };
        assert_eq!(shown(&mut case, None), None, "lists have a cost each");
        case.loads = vec![Load::default()];
        assert_eq!(shown(&mut case, None).as_deref(), Some("0.43 cores"));
        let each = shown(&mut case, Some(0.000_02));
        assert_eq!(each.as_deref(), Some("20.0 µs"));
        case.rounds.clear();
        assert_eq!(shown(&mut case, None), None);
    }

    #[test]
    fn a_small_request_s_cost_has_its_rate_beside_it() {
        let mut case = Case::new("pods", "bench", Tier::Etcd, "get", Outcome::Measured);
        assert_eq!(server_cpu_and_rate(&case), None);
        case.server = Some(ServerFigures {
            cpu_s_per_request: Some(22e-6),
            ..ServerFigures::default()
        });
        assert_eq!(server_cpu_and_rate(&case).as_deref(), Some("22.0 µs"));
        case.requests_per_s = Some(20_000.0);
        let shown = server_cpu_and_rate(&case);
        assert_eq!(shown.as_deref(), Some("22.0 µs at 20,000/s"));
    }

    #[test]
    fn a_measured_row_without_figures_of_its_server_says_why() {
        let mut case = Case::new("pods", "etcd", Tier::Etcd, "stream", Outcome::Measured);
        let reason = "all of http://it:2379: /metrics: 403 Forbidden";
        case.missing_figures.push(reason.to_owned());
        assert!(notes(&case).contains(&format!("not known: {reason}")));
        assert!(
            notes(&case)
                .iter()
                .any(|note| note.contains("was there already and does not tell")),
            "{:?}",
            notes(&case)
        );
    }

    #[test]
    fn what_limits_a_row_is_said_beside_it() {
        let mut case = Case::new("pods", "bench", Tier::Kube, "cached", Outcome::Measured);
        case.clients = 5;
        case.encoding = Some("json".into());
        case.served_from = ServedFrom::WatchCache;
        case.requests = 25;
        case.errors = 2;
        case.client_limited = true;
        case.server = Some(ServerFigures::default());
        case.null_sink_ms = Some(Quantiles {
            n: 3,
            p50: Some(700.0),
            ..Quantiles::default()
        });
        let row = CaseRow::of(&case);
        assert_eq!(&row.cells[2..4], ["cached × 5 clients", "json, from cache"]);
        assert_eq!(
            row.cells[NOTES],
            "2 of 25 requests wrong; client-limited: 700 ms without checking"
        );
    }
}
