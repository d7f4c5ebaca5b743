//! Metrics of connections and streams, and of rejections by their limits.

use std::sync::atomic::Ordering;

use memory::metrics::{counter, gauge};
use memory::{in_flight, request_room};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::connections;
use super::counts::{self, COUNTS};

/// Collects the process's counts.
#[derive(Debug)]
pub struct LimitCollector;

impl Collector for LimitCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let e = &mut encoder;
        let gauges = [
            (
                "bench_server_connections_open",
                "Connections of clients",
                COUNTS.open.load(Ordering::Relaxed) as i64,
            ),
            (
                "bench_server_connections_limit",
                "Connections that clients may have",
                connections::limit() as i64,
            ),
            (
                "bench_server_tasks",
                "Tasks of the threads that serve connections",
                counts::tasks() as i64,
            ),
            (
                "bench_server_in_flight_bytes",
                "Bytes of responses that were handed to connections and that clients have not taken",
                in_flight::process_bytes() as i64,
            ),
            (
                "bench_server_request_bytes",
                "Memory of the large messages of requests that arrive or are handled, bytes",
                request_room::process_bytes() as i64,
            ),
        ];
        for (name, help, value) in gauges {
            gauge(e, name, help, value)?;
        }
        let counters = [
            (
                "bench_server_requests_without_memory",
                "Requests that were refused, since no memory for their message became free in time",
                request_room::refused(),
            ),
            (
                "bench_server_connections_refused",
                "Connections that were closed at once, since there were too many",
                COUNTS.refused.load(Ordering::Relaxed),
            ),
            (
                "bench_server_newcomers_closed",
                "Connections that had said nothing yet and were closed for newer ones",
                COUNTS.pending_evicted.load(Ordering::Relaxed),
            ),
            (
                "bench_server_heads_closed",
                "Connections that were closed, since the head of a request did not end",
                COUNTS.heads_closed.load(Ordering::Relaxed),
            ),
            (
                "bench_server_requests_refused",
                "Requests that were refused, since too many were being answered",
                COUNTS.requests_refused.load(Ordering::Relaxed),
            ),
            (
                "bench_server_stalled_responses",
                "Responses that were given up, since their clients took nothing",
                COUNTS.stalled.load(Ordering::Relaxed),
            ),
        ];
        for (name, help, value) in counters {
            counter(e, name, help, value as f64)?;
        }
        Ok(())
    }
}
