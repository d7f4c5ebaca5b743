//! The measurements of a case on one start of its servers, which is the unit of every comparison.

use serde::{Deserialize, Serialize};

use super::{Case, Quantiles};

/// One start of a case's servers, and what the case measured on it.
///
/// Lists on one start share its memory layout, its threads and its moment in time. They tell how
/// that start behaves and little about the next one (Georges et al., OOPSLA 2007; Kalibera and
/// Jones, ISMM 2013). Comparisons therefore count starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerStart {
    /// Number of the pair that the start belongs to: starts of two targets with the same number ran
    /// one right after the other. Null where starts were not made in pairs.
    #[serde(default)]
    pub pair: Option<u32>,
    /// Requests completed on it, failed ones included.
    pub requests: u64,
    /// Requests that failed, or whose response was wrong.
    pub errors: u64,
    /// As [`Case::bytes`]: bytes of one list as received.
    pub bytes: u64,
    /// As [`Case::latency_ms`].
    pub latency_ms: Option<Quantiles>,
    /// As [`Case::first_chunk_ms`].
    pub first_chunk_ms: Option<Quantiles>,
    /// As [`Case::requests_per_s`].
    pub requests_per_s: Option<f64>,
    /// Median over rounds of the time of a list divided by that of its baseline.
    pub over_baseline: Option<f64>,
    /// As [`super::ServerMetrics::cpu_s_per_request`].
    pub server_cpu_s_per_request: Option<f64>,
    /// As [`super::ClientMetrics::cpu_s_per_request`].
    pub client_cpu_s_per_request: Option<f64>,
    /// As [`super::ServerMetrics::peak_above_idle`], in bytes.
    pub peak_above_idle: Option<u64>,
    /// As [`super::ServerMetrics::rss_anon_idle`], in bytes.
    pub rss_anon_idle: Option<u64>,
    /// As [`super::ServerMetrics::rss_resolution`], in bytes.
    pub rss_resolution: Option<u64>,
}

impl ServerStart {
    /// Returns the start of a case that was measured on only one.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        let (server, client) = (case.server.as_ref(), case.client.as_ref());
        Self {
            pair: None,
            requests: case.requests,
            errors: case.errors,
            bytes: case.bytes,
            latency_ms: case.latency_ms.clone(),
            first_chunk_ms: case.first_chunk_ms.clone(),
            requests_per_s: case.requests_per_s,
            over_baseline: case.baseline.as_ref().map(|found| found.time_ratio.p50),
            server_cpu_s_per_request: server.and_then(|server| server.cpu_s_per_request),
            client_cpu_s_per_request: client.and_then(|client| client.cpu_s_per_request),
            peak_above_idle: server.map(|server| server.peak_above_idle),
            rss_anon_idle: server.and_then(|server| server.rss_anon_idle),
            rss_resolution: server.and_then(|server| server.rss_resolution),
        }
    }
}
