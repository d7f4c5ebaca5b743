//! Measurements that cannot be read: they are missing, with the reason, or end the case.

use std::process::{Child, Command, Stdio};

use nix::unistd::{Uid, setfsuid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use std::collections::BTreeMap;

use report::result::TierMetrics;

/// A process that does nothing. Killed when dropped.
struct Idle(Child);

impl Idle {
    fn start() -> Self {
        let mut command = Command::new("sleep");
        let child = command.arg("600").stdin(Stdio::null()).spawn();
        Self(child.expect("every system has it"))
    }

    /// Returns a meter with this process as the only server, which serves its metrics at
    /// `metrics_url`.
    fn meter(&self, metrics_url: Option<String>) -> Meter {
        let pid = self.0.id();
        let server = Metered {
            name: "etcd".to_owned(),
            pid,
            process: Process::new(pid).expect("it sleeps"),
            metrics_url,
            cpu_before: Duration::ZERO,
            counters_before: None,
            figures: TierMetrics::default(),
            round_peaks: Vec::new(),
        };
        Meter {
            servers: vec![server],
            remote: None,
            unmetered: None,
            missing: Vec::new(),
            own: Process::own().expect("this process"),
            own_cpu_before: Duration::ZERO,
            begun: None,
            figures: ServerMetrics::default(),
            stored_bytes: None,
            ask_allocated_every: ASK_SELDOM,
            is_steady: true,
            keeps_events: false,
            sampler: None,
            rounds: Rounds::default(),
            profilers: None,
            profiling: None,
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.kill().expect("the child is ours");
        self.0.wait().expect("the child was killed");
    }
}

/// Returns the URL of a server whose metrics page has these counts, one for each request in order;
/// `None` is a response with status 503.
async fn counting(counts: Vec<Option<u32>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        for count in counts {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 1024];
            let read = socket.read(&mut request).await;
            assert!(read.expect("a connection that lives") > 0, "a request");
            let (status, page) = match count {
                Some(count) => ("200 OK", format!("etcd_requests_total {count}\n")),
                None => ("503 Service Unavailable", String::new()),
            };
            let length = page.len();
            let response = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            );
            let sent = socket.write_all(response.as_bytes()).await;
            sent.expect("the client reads");
        }
    });
    url
}

/// Returns the counters and missing measurements of a case with these pages: the first is read for
/// the allocated bytes, the second at the start of the phase, the third at its end.
async fn counted(pages: [Option<u32>; 3]) -> (BTreeMap<String, u64>, Vec<String>) {
    let server = Idle::start();
    let mut meter = server.meter(Some(counting(pages.to_vec()).await));
    meter.begin().await.expect("the server lives");
    let (figures, ..) = meter.cost(0, 1).await;
    (figures.expect("a server of ours").counters, meter.missing)
}

#[tokio::test]
async fn counters_are_counted_from_the_page_that_the_phase_began_with() {
    let grown = BTreeMap::from([("etcd_requests_total".to_owned(), 30)]);
    let all_there = counted([Some(10), Some(50), Some(80)]).await;
    assert_eq!(all_there, (grown, Vec::new()));
}

/// Counted from zero, they would be the totals since the server started.
#[tokio::test]
async fn without_a_page_at_begin_or_end_there_are_no_counters() {
    for pages in [[Some(10), None, Some(80)], [Some(10), Some(50), None]] {
        let (counters, missing) = counted(pages).await;
        assert_eq!(counters, BTreeMap::new(), "{pages:?}");
        let [missing] = &missing[..] else {
            panic!("{pages:?}: {missing:?}");
        };
        assert!(missing.starts_with("counters of etcd: "), "{missing}");
        assert!(missing.contains("503"), "{missing}");
    }
}

/// Returns a series with a sample each second, whose private memory is `anon`.
fn memory(process: &str, anon: impl Fn(u32) -> u64) -> Series {
    let sample = |second: u32| measure::Sample {
        elapsed_s: f64::from(second),
        anon: anon(second),
        ..measure::Sample::default()
    };
    Series {
        process: process.to_owned(),
        samples: (0..=600).map(sample).collect(),
    }
}

#[test]
fn steady_growth_is_told_from_wandering() {
    // Grows by 10 % of its first size in ten minutes.
    let growing = memory("etcd", |second| 60_000_000 + u64::from(second) * 10_000);
    let grown = late_over_early(&[growing], ["etcd"]).expect("a long phase");
    let [lower, upper] = grown.likely.expect("of ten windows");
    assert!((1.057..1.059).contains(&grown.p50), "{grown:?}");
    assert!(upper - lower < 0.002, "{grown:?}");

    let wandering = |second: u32| 60_000_000 + [0, 9_000_000, 4_000_000][second as usize / 13 % 3];
    let wanders = late_over_early(&[memory("etcd", wandering)], ["etcd"]);
    let [lower, upper] = wanders.and_then(|it| it.likely).expect("of ten windows");
    assert!(lower < 0.95 && upper > 1.05, "{wanders:?}");

    let both = [
        memory("etcd", |_| 10_000_000),
        memory(
            "kube",
            |second| if second > 300 { 30_000_000 } else { 10_000_000 },
        ),
    ];
    let together = late_over_early(&both, ["etcd", "kube"]).expect("a long phase");
    assert_eq!((together.p50, together.likely), (2.0, Some([2.0, 2.0])));
    assert_eq!(late_over_early(&both, ["etcd", "another"]), None);
}

#[tokio::test]
async fn a_server_that_has_ended_has_no_cpu_time_rather_than_none_used() {
    let server = Idle::start();
    let mut meter = server.meter(None);
    meter.begin().await.expect("the server lives");
    meter.begin_round().expect("its peak can be reset");
    drop(server);
    meter.begin_round().expect("its end is noticed elsewhere");
    meter.end_of_round(true).await;
    let (figures, client, _) = meter.cost(0, 10).await;
    let figures = figures.expect("a server of ours");
    assert_eq!((figures.cpu_s, figures.cpu_s_per_request), (None, None));
    assert_eq!(figures.etcd.and_then(|etcd| etcd.cpu_s), None);
    assert_eq!(figures.peaks_above_idle, [0_u64; 0]);
    assert!(client.cpu_s.is_some() && client.rss_peak.is_some());
    let [missing] = &meter.missing[..] else {
        panic!("{:?}", meter.missing);
    };
    assert!(missing.starts_with("CPU time of etcd: "), "{missing}");
}

/// The peak would be that of seeding. Only the user of a process may reset its peak: a thread that
/// opens files as another user imitates a kernel that refuses.
#[test]
fn a_peak_that_cannot_be_reset_ends_the_case() {
    if !Uid::effective().is_root() {
        eprintln!("skipped: opening files as another user takes root");
        return;
    }
    let server = Idle::start();
    let refused = std::thread::scope(|scope| {
        let reset = || {
            let mut meter = server.meter(None);
            meter.begin_round().expect("the process is ours");
            setfsuid(Uid::from_raw(65_534));
            meter.begin_round()
        };
        scope.spawn(reset).join().expect("it does not panic")
    });
    let refused = refused.expect_err("somebody else's process").to_string();
    assert!(refused.contains("ermission"), "{refused}");
}
