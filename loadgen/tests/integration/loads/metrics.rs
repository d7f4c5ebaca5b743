//! The metrics that a run exports for Prometheus, and waiting for them in tests.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use super::*;

/// The flag with which a run exports its metrics.
pub(super) const SERVED: &str = "--listen-metrics";

/// Returns the URL of a run's metrics, from its log.
fn metrics_url(said: &[String]) -> &str {
    let url = said.iter().find_map(|line| line.strip_prefix("metrics: "));
    url.expect("it says where")
}

/// Returns a metric of a load.
fn metric(text: &str, name: &str, load: &str) -> Option<f64> {
    let load = format!("load=\"{load}\"");
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with(name) && line.contains(&load))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until a run has counted requests of a load, which it does once the measurement has
/// started.
pub(super) fn until_counted(said: &[String], load: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let text = get(metrics_url(said));
        if metric(&text, "loadgen_requests_total{", load) > Some(0.0) {
            return;
        }
        assert!(Instant::now() < until, "{text}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the response to a GET request of a URL.
fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").expect("a URL");
    let (address, path) = rest.split_once('/').expect("a path");
    let mut socket = TcpStream::connect(address).expect("it listens");
    write!(socket, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it reads");
    let mut response = String::new();
    socket.read_to_string(&mut response).expect("text");
    response
}

#[test]
fn metrics_are_served_while_it_runs() {
    let (_folder, mut run, said, log) = started(WRITTEN_AND_WATCHED, "long", &[SERVED, "0"]);
    let url = metrics_url(&said);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    // A time limit; the metrics are served within a second.
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let text = get(url);
        let is_above_zero = |name, load| metric(&text, name, load) > Some(0.0);
        if is_above_zero("loadgen_requests_total{", "puts")
            && is_above_zero("loadgen_requests_total{", "lists")
            && is_above_zero("loadgen_watch_events_total{", "watchers")
            && is_above_zero("loadgen_requests_due_total{", "puts")
        {
            assert_eq!(
                metric(&text, "loadgen_request_errors_total{", "puts"),
                Some(0.0)
            );
            break;
        }
        assert!(Instant::now() < until, "{text}");
        thread::sleep(Duration::from_millis(20));
    }
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    drop(log);
}

#[test]
fn a_metrics_port_that_is_taken_is_a_usage_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let (code, report, log) = run_with(WRITTEN_AND_WATCHED, &[SERVED, &port]);
    assert_eq!((code, &report), (Some(2), &Value::Null), "{log}");
    assert!(log.contains("--listen-metrics 127.0.0.1:"), "{log}");
    assert_eq!(log.trim_end().lines().count(), 1, "{log}");
}
