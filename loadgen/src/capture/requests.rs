//! Measures what clients ask of an etcd, from two readings of its members' metrics.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use kube_api::client::{KubeAccess, KubeError};
use measure::{MetricsPage, RemotePage};

/// Calls by gRPC method, counted by the member that receives them.
const STARTED: &str = "grpc_server_started_total";
/// Messages of streams, counted likewise.
const RECEIVED: &str = "grpc_server_msg_received_total";
const SENT_BYTES: &str = "etcd_network_client_grpc_sent_bytes_total";
const WATCHERS: &str = "etcd_debugging_mvcc_watcher_total";
/// Writes, counted by every member when it applies them: keys put, and deletions of a key or of a
/// range.
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
    /// Deletions, those of expired leases included. One of a range counts once.
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
    #[error("{url}: {source}")]
    Page {
        /// The member.
        url: String,
        /// The cause.
        source: KubeError,
    },
    /// The server does not count what is needed.
    #[error("{url}: its metrics have no {metric}")]
    NotCounted {
        /// The member.
        url: String,
        /// The metric.
        metric: &'static str,
    },
    /// A member was restarted, so its counters began anew.
    #[error("{0} was restarted meanwhile")]
    Restarted(String),
}

/// Reads the metrics of each member, and again after `over`; all members at the same time.
///
/// # Errors
/// [`RatesError`], at once if the metrics are not there.
pub(super) async fn observe(
    urls: &[String],
    access: &KubeAccess,
    over: Duration,
) -> Result<RequestRates, RatesError> {
    let first = try_join_all(urls.iter().map(|url| Member::open(url, access))).await?;
    tokio::time::sleep(over).await;
    let readings = try_join_all(first.into_iter().map(Member::again)).await?;
    Ok(rates(&readings))
}

/// A member whose metrics were read once.
struct Member {
    url: String,
    page: RemotePage,
    before: MetricsPage,
    at: Instant,
}

impl Member {
    async fn open(url: &str, access: &KubeAccess) -> Result<Self, RatesError> {
        let failed = |source| RatesError::Page {
            url: url.to_owned(),
            source,
        };
        let mut page = RemotePage::new(url, access.clone()).map_err(failed)?;
        let before = page.read().await.map_err(failed)?;
        if let Some(metric) = missing(&before) {
            let url = url.to_owned();
            return Err(RatesError::NotCounted { url, metric });
        }
        Ok(Self {
            url: url.to_owned(),
            page,
            before,
            at: Instant::now(),
        })
    }

    async fn again(mut self) -> Result<Reading, RatesError> {
        let after = self.page.read().await;
        let after = after.map_err(|source| RatesError::Page {
            url: self.url.clone(),
            source,
        })?;
        if after.is_of_another_start(&self.before) {
            return Err(RatesError::Restarted(self.url));
        }
        Ok(Reading {
            before: self.before,
            after,
            over: self.at.elapsed(),
        })
    }
}

/// Returns the metric that a page lacks. Series of one gRPC method are absent until its first call.
fn missing(page: &MetricsPage) -> Option<&'static str> {
    let needed = [STARTED, PUTS, DELETES, KEYS];
    needed.into_iter().find(|name| {
        let mut series = page.counters.keys();
        !series.any(|series| series.split('{').next() == Some(*name))
    })
}

/// The metrics of one member at two times.
struct Reading {
    before: MetricsPage,
    after: MetricsPage,
    /// The time between them.
    over: Duration,
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

fn rates(readings: &[Reading]) -> RequestRates {
    let of_all = |growth: &dyn Fn(&Reading) -> f64| {
        let rates = readings.iter();
        rates
            .map(|one| growth(one) / one.over.as_secs_f64())
            .sum::<f64>()
            .max(0.0)
    };
    // A member that lags has applied fewer writes.
    let puts = |reading: &Reading| reading.growth(PUTS) / reading.over.as_secs_f64();
    let ahead = readings.iter().max_by(|a, b| puts(a).total_cmp(&puts(b)));
    let applied = |name: &str| ahead.map_or(0.0, |one| one.growth(name) / one.over.as_secs_f64());
    let (puts, deletes) = (applied(PUTS), applied(DELETES));
    let creates = (deletes + applied(KEYS)).clamp(0.0, puts.max(0.0));
    let watchers = readings
        .iter()
        .filter_map(|reading| reading.after.counters.get(WATCHERS));
    RequestRates {
        over: ahead.map_or(Duration::ZERO, |one| one.over),
        ranges: of_all(&|reading| reading.growth_of(STARTED, "Range")),
        range_streams: of_all(&|reading| reading.growth_of(STARTED, "RangeStream")),
        creates,
        updates: puts - creates,
        deletes,
        keep_alives: of_all(&|reading| reading.growth_of(RECEIVED, "LeaseKeepAlive")),
        sent_bytes: of_all(&|reading| reading.growth(SENT_BYTES)),
        watchers: watchers.sum::<f64>() as u64,
    }
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
            over: Duration::from_secs(10),
        }
    }

    #[test]
    fn calls_of_all_members_are_summed_and_applied_writes_are_not() {
        let readings = [member(100.0, 300.0), member(50.0, 290.0)];
        let rates = rates(&readings);
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
    fn a_server_that_counts_too_little_has_no_rates() {
        let mut page = member(1.0, 1.0).after;
        assert_eq!(missing(&page), None);
        page.counters.remove(DELETES);
        assert_eq!(missing(&page), Some(DELETES));
        assert_eq!(missing(&MetricsPage::default()), Some(STARTED));
    }
}
