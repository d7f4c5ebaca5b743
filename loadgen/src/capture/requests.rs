//! Measures what clients ask of an etcd, from two readings of its members' metrics.

use std::time::{Duration, Instant};

use kube_api::client::{KubeAccess, KubeError};
use measure::{MetricsPage, RemotePage};

/// Calls by gRPC method, counted by the member that receives them.
const STARTED: &str = "grpc_server_started_total";
/// Messages of streams, counted likewise.
const RECEIVED: &str = "grpc_server_msg_received_total";
const SENT_BYTES: &str = "etcd_network_client_grpc_sent_bytes_total";
const WATCHERS: &str = "etcd_debugging_mvcc_watcher_total";
/// Writes, counted by every member when it applies them.
const PUTS: &str = "etcd_mvcc_put_total";
const DELETES: &str = "etcd_mvcc_delete_total";
const KEYS: &str = "etcd_debugging_mvcc_keys_total";

/// Requests to all members of an etcd together, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestRates {
    /// The time between the two readings.
    pub over: Duration,
    /// Range calls. The metrics do not distinguish a read of one key from a list.
    pub ranges: f64,
    /// RangeStream calls.
    pub range_streams: f64,
    /// Keys created: those deleted, and the growth of the number of keys.
    pub creates: f64,
    /// Keys written again.
    pub updates: f64,
    /// Keys deleted, those of expired leases included.
    pub deletes: f64,
    /// Keep-alives of leases.
    pub keep_alives: f64,
    /// Bytes of responses and events.
    pub sent_bytes: f64,
    /// Watchers at the second reading.
    pub watchers: u64,
}

/// The reason why requests are not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum RatesError {
    /// A page could not be read.
    #[error(transparent)]
    Page(#[from] KubeError),
    /// The server does not count requests by method.
    #[error("its metrics have no {STARTED}")]
    NotCounted,
    /// A member was restarted, so its counters began anew.
    #[error("a member was restarted meanwhile")]
    Restarted,
}

/// Reads the metrics of each member, and again after `over`.
///
/// # Errors
/// [`RatesError`].
pub(super) async fn observe(
    urls: &[String],
    access: &KubeAccess,
    over: Duration,
) -> Result<RequestRates, RatesError> {
    let mut members = Vec::new();
    for url in urls {
        let mut page = RemotePage::new(url, access.clone())?;
        let before = page.read().await?;
        members.push((page, before));
    }
    let begun = Instant::now();
    tokio::time::sleep(over).await;
    let over = begun.elapsed();
    let mut readings = Vec::new();
    for (page, before) in &mut members {
        let after = page.read().await?;
        if after.started != before.started {
            return Err(RatesError::Restarted);
        }
        readings.push(Reading {
            before: std::mem::take(before),
            after,
        });
    }
    rates(&readings, over)
}

/// The metrics of one member at two times.
struct Reading {
    before: MetricsPage,
    after: MetricsPage,
}

impl Reading {
    /// Returns the growth of a metric without labels.
    fn growth(&self, name: &str) -> f64 {
        let value = |page: &MetricsPage| page.counters.get(name).copied().unwrap_or(0.0);
        value(&self.after) - value(&self.before)
    }

    /// Returns the growth of a metric of gRPC, for one method.
    fn growth_of(&self, name: &str, method: &str) -> f64 {
        let method = format!("grpc_method=\"{method}\"");
        let value = |page: &MetricsPage| {
            let series = page.counters.iter();
            let series = series.filter(|(series, _)| {
                series
                    .strip_prefix(name)
                    .is_some_and(|labels| labels.starts_with('{') && labels.contains(&method))
            });
            series.map(|(_, value)| value).sum::<f64>()
        };
        value(&self.after) - value(&self.before)
    }
}

fn rates(readings: &[Reading], over: Duration) -> Result<RequestRates, RatesError> {
    let is_counted = |reading: &Reading| {
        let mut series = reading.after.counters.keys();
        series.any(|series| series.starts_with(STARTED))
    };
    if !readings.iter().all(is_counted) {
        return Err(RatesError::NotCounted);
    }
    let seconds = over.as_secs_f64();
    let of_all = |growth: &dyn Fn(&Reading) -> f64| {
        readings.iter().map(growth).sum::<f64>().max(0.0) / seconds
    };
    // A member that lags has applied fewer writes.
    let applied = |name: &str| {
        let growths = readings.iter().map(|reading| reading.growth(name));
        growths.fold(0.0, f64::max) / seconds
    };
    let key_growth = readings.first().map_or(0.0, |first| first.growth(KEYS)) / seconds;
    let (puts, deletes) = (applied(PUTS), applied(DELETES));
    let creates = (deletes + key_growth).clamp(0.0, puts);
    let watchers = readings
        .iter()
        .filter_map(|reading| reading.after.counters.get(WATCHERS));
    Ok(RequestRates {
        over,
        ranges: of_all(&|reading| reading.growth_of(STARTED, "Range")),
        range_streams: of_all(&|reading| reading.growth_of(STARTED, "RangeStream")),
        creates,
        updates: puts - creates,
        deletes,
        keep_alives: of_all(&|reading| reading.growth_of(RECEIVED, "LeaseKeepAlive")),
        sent_bytes: of_all(&|reading| reading.growth(SENT_BYTES)),
        watchers: watchers.sum::<f64>() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(values: &[(&str, f64)]) -> MetricsPage {
        let counters = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        MetricsPage {
            counters: counters.collect(),
            ..MetricsPage::default()
        }
    }

    fn member(ranges: f64, puts: f64) -> Reading {
        const RANGE: &str = r#"grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
        const STREAM: &str = r#"grpc_server_started_total{grpc_method="RangeStream",grpc_service="etcdserverpb.KV",grpc_type="server_stream"}"#;
        Reading {
            before: page(&[(RANGE, 1e6), (STREAM, 7.0), (KEYS, 500.0)]),
            after: page(&[
                (RANGE, 1e6 + ranges),
                (STREAM, 7.0),
                (PUTS, puts),
                (DELETES, 20.0),
                (KEYS, 510.0),
                (WATCHERS, 40.0),
            ]),
        }
    }

    #[test]
    fn calls_of_all_members_are_summed_and_applied_writes_are_not() {
        let readings = [member(100.0, 300.0), member(50.0, 290.0)];
        let rates = rates(&readings, Duration::from_secs(10)).expect("it counts");
        assert_eq!(
            rates,
            RequestRates {
                over: Duration::from_secs(10),
                ranges: 15.0,
                creates: 3.0,
                updates: 27.0,
                deletes: 2.0,
                watchers: 80,
                ..RequestRates::default()
            }
        );
    }

    #[test]
    fn a_server_that_counts_nothing_has_no_rates() {
        let silent = Reading {
            before: MetricsPage::default(),
            after: page(&[(PUTS, 7.0)]),
        };
        let rates = rates(&[silent], Duration::from_secs(1));
        assert!(matches!(rates, Err(RatesError::NotCounted)), "{rates:?}");
    }
}
