//! Tests of the rows of cases, and of their notes.

use super::*;
use crate::result::{Load, Outcome, Round, ServerStart};
use workloads::strategy::Tier;

#[test]
fn a_case_that_was_not_measured_has_dashes_and_its_reason() {
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
    let mut server = ServerMetrics {
        peak_above_idle: 876 << 10,
        rss_file_idle: Some(50 << 20),
        rss_file_peak: Some(52 << 20),
        rss_resolution: Some(256 << 10),
        socket_idle: Some(1 << 20),
        socket_peak: Some(14 << 20),
        socket_resolution: Some(2 << 20),
        ..ServerMetrics::default()
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
    case.server = Some(ServerMetrics {
        peak_above_idle: 876 << 10,
        peak_per_listed_byte: Some(0.0086),
        rss_resolution: Some(256 << 10),
        ..ServerMetrics::default()
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
    let mut server = ServerMetrics {
        cpu_s: Some(4.3),
        ..ServerMetrics::default()
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
    case.server = Some(ServerMetrics {
        cpu_s_per_request: Some(22e-6),
        ..ServerMetrics::default()
    });
    assert_eq!(server_cpu_and_rate(&case).as_deref(), Some("22.0 µs"));
    case.requests_per_s = Some(20_000.0);
    let shown = server_cpu_and_rate(&case);
    assert_eq!(shown.as_deref(), Some("22.0 µs at 20,000/s"));
}

#[test]
fn a_measured_case_without_metrics_of_its_server_says_why() {
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
fn what_limits_a_case_is_in_its_notes() {
    let mut case = Case::new("pods", "bench", Tier::Kube, "cached", Outcome::Measured);
    case.clients = 5;
    case.encoding = Some("json".into());
    case.served_from = ServedFrom::WatchCache;
    case.requests = 25;
    case.errors = 2;
    case.client_limited = true;
    case.server = Some(ServerMetrics::default());
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

#[test]
fn a_case_of_several_starts_says_how_far_they_lie_apart() {
    let mut case = Case::new("pods", "bench", Tier::Etcd, "stream", Outcome::Measured);
    let start = |p50, cpu, above: u64| ServerStart {
        latency_ms: Some(Quantiles {
            n: 5,
            p50: Some(p50),
            ..Quantiles::default()
        }),
        server_cpu_s_per_request: Some(cpu),
        peak_above_idle: Some(above << 20),
        rss_resolution: Some(256 << 10),
        ..ServerStart::default()
    };
    case.starts = vec![start(390.0, 0.36, 80)];
    let of_starts = |case: &Case| notes(case).into_iter().find(|note| note.contains("starts"));
    assert_eq!(of_starts(&case), None);
    case.starts
        .extend([start(368.0, 0.36, 95), start(412.0, 0.36, 83)]);
    let text = "of 3 starts the one with the middle p50; all of them: p50 368 ms … 412 ms, \
                server CPU 360 ms, peak above idle 80 MiB … 95 MiB";
    assert_eq!(of_starts(&case).as_deref(), Some(text));
}
