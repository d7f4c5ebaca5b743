//! The notes of a case: why it was not measured, what limits it, and which loads ran with it.

use super::milliseconds;
use super::sharding::shared;
use crate::quantity::Quantity;
use crate::result::{
    Baseline, Case, ClientMetrics, Outcome, PROFILED, Quantiles, Saturation, ServerMetrics,
    ServerStart, Spread,
};

/// Returns everything that a reader must know about the case: [`warnings`], its rate, and the loads
/// that ran with it.
#[must_use]
pub fn notes(case: &Case) -> Vec<String> {
    let mut notes = warnings(case);
    match &case.shards {
        Some(shards) => notes.extend(shared(case, shards)),
        // Several loads have a table of their own.
        None if !case.loads.is_empty() => {}
        None => notes.extend(pace(case)),
    }
    notes.extend(case.saturation.iter().map(saturation));
    notes.extend(case.client.as_ref().and_then(program));
    if case.server.as_ref().is_some_and(|s| s.is_self_reported) {
        notes.push(
            "the server's figures are from its metrics page: memory as it was between lists, pages of files included"
                .to_owned(),
        );
    }
    if case.server.is_none() && case.outcome == Outcome::Measured {
        // Every server that loadgen started has metrics.
        notes.push(
            "memory and CPU of the server are not known: it was there already and does not tell them"
                .to_owned(),
        );
    }
    notes.extend(starts(case));
    notes.extend(case.server.as_ref().and_then(cache_fill));
    notes.extend(late_over_early(case));
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

/// Returns what a reader must know before comparing the case: why it was not measured, or what
/// limits it.
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
            // The confidence interval is known from six rounds on.
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

/// Returns up to which rate an objective is met, and how certain that is.
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

/// Returns how long the watch cache took to fill when the server started.
fn cache_fill(server: &ServerMetrics) -> Option<String> {
    let seconds = server.kube.as_ref()?.cache_fill_s?;
    Some(format!(
        "its watch cache was filled in {}",
        Quantity::seconds(seconds)
    ))
}

/// Returns by how much private memory grew during a long phase.
fn late_over_early(case: &Case) -> Option<String> {
    let server = case.server.as_ref();
    let server = server.and_then(|it| Some((it.late_over_early?, it.late_over_early_likely)));
    let client = case.client.as_ref();
    let client = client.and_then(|it| Some((it.late_over_early?, it.late_over_early_likely)));
    let texts = [("server", server), ("generator", client)]
        .into_iter()
        .filter_map(|(whose, figure)| {
            let (ratio, likely) = figure?;
            let ratio = Quantity::PerByte(ratio);
            Some(match likely.map(|ends| ends.map(Quantity::PerByte)) {
                Some([lower, upper]) => format!("{whose} {ratio} ({lower} … {upper})"),
                None => format!("{whose} {ratio}"),
            })
        });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| {
        format!(
            "private memory late in the phase over early in it: {}",
            texts.join(", ")
        )
    })
}

/// Returns the cost of a list on a client that is a separate program.
fn program(client: &ClientMetrics) -> Option<String> {
    let name = client.program.as_ref()?;
    let cpu = Quantity::seconds(client.cpu_s_per_request?);
    let peak = Quantity::or_absent(client.rss_peak.map(Quantity::bytes));
    Some(format!("{name} took {cpu} of CPU and up to {peak}"))
}

/// Returns the rate and other metrics of a case of small requests or of events.
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

/// Returns the time of a list divided by that of its baseline, interleaved.
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

/// Returns how far apart the starts of the servers lie, where there are several.
fn starts(case: &Case) -> Option<String> {
    let starts = &case.starts;
    if starts.len() < 2 {
        return None;
    }
    let spread = |of: fn(&ServerStart) -> Option<f64>| Spread::of(starts.iter().filter_map(of));
    let resolution = starts.iter().filter_map(|start| start.rss_resolution).max();
    let memory = |bytes: f64| Quantity::bytes_within(bytes as u64, resolution);
    let ranges = [
        spread(|start| start.latency_ms.as_ref()?.p50)
            .map(|spread| range("p50", spread, Quantity::Milliseconds)),
        spread(|start| start.server_cpu_s_per_request)
            .map(|spread| range("server CPU", spread, Quantity::seconds)),
        spread(|start| start.peak_above_idle.map(|bytes| bytes as f64))
            .map(|spread| range("peak above idle", spread, memory)),
    ];
    Some(format!(
        "of {} starts the one with the middle p50; all of them: {}",
        starts.len(),
        ranges.into_iter().flatten().collect::<Vec<_>>().join(", ")
    ))
}

/// Returns the smallest and the largest value, or both at once where they look the same.
fn range(name: &str, spread: Spread, shown: impl Fn(f64) -> Quantity) -> String {
    let [min, max] = [spread.min, spread.max].map(|value| shown(value).to_string());
    match min == max {
        true => format!("{name} {min}"),
        false => format!("{name} {min} … {max}"),
    }
}
