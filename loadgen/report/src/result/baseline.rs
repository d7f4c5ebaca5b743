//! A case's lists compared with a baseline: the same bytes from one contiguous buffer.

use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// Lists compared with a baseline: the same number of bytes from one contiguous buffer, over the
/// same HTTP to the same kind of client. The baseline is sent by a process of loadgen that is the
/// same for every target.
///
/// On one machine, two servers or two minutes may differ by more than a list and its baseline do.
/// So the two are interleaved, and each list is compared with the baseline of the same round. The
/// result is the median of the rounds' ratios.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Baseline {
    /// True when the lists' objects were checked. False in results whose clients checked none.
    pub checked: bool,
    /// Bytes of the baseline's body, the same as of one list as received.
    pub body_bytes: u64,
    /// Time of a list.
    pub list_ms: Spread,
    /// Time of the baseline.
    pub body_ms: Spread,
    /// CPU time of all servers during a list; null where loadgen started none.
    #[serde(default)]
    pub list_server_cpu_ms: Option<Spread>,
    /// Time of a round's list divided by that of its baseline.
    pub time_ratio: Spread,
    /// The same ratio of the servers' CPU time; null where loadgen started none.
    pub server_cpu_ratio: Option<Spread>,
    /// The same ratio of the client's CPU time.
    pub client_cpu_ratio: Spread,
    /// Time of the same bytes over a plain socket, written 256 KiB at a time and read into one
    /// buffer; null in results without this measurement.
    #[serde(default)]
    pub socket_ms: Option<Spread>,
    /// Time of a round's list divided by that of the same bytes over a plain socket.
    #[serde(default)]
    pub socket_time_ratio: Option<Spread>,
    /// The rounds, in order.
    pub rounds: Vec<BaselineRound>,
}

/// The list and the baseline of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BaselineRound {
    /// Whether the list came first. The order alternates.
    pub list_first: bool,
    /// The list.
    pub list: Transfer,
    /// The baseline.
    pub body: Transfer,
    /// The same bytes over a plain socket.
    #[serde(default)]
    pub socket: Option<Transfer>,
}

/// The cost of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Transfer {
    /// Wall-clock time at the client, from the request to the last byte.
    pub ms: f64,
    /// CPU time of all servers meanwhile, or of the baseline's process; null where loadgen started
    /// no server.
    pub server_cpu_ms: Option<f64>,
    /// CPU time of the client's thread meanwhile.
    pub client_cpu_ms: f64,
}

impl Baseline {
    /// Returns the summary of the rounds; `None` without any.
    #[must_use]
    pub fn of(body_bytes: u64, rounds: Vec<BaselineRound>) -> Option<Self> {
        let each = |of: fn(&BaselineRound) -> f64| Spread::of(rounds.iter().map(of));
        let socket = |of: fn(&BaselineRound, &Transfer) -> f64| {
            let each = rounds
                .iter()
                .map(|round| Some(of(round, round.socket.as_ref()?)));
            each.collect::<Option<Vec<f64>>>().and_then(Spread::of)
        };
        let server_cpu = rounds.iter().map(|round| {
            let body = round.body.server_cpu_ms?;
            Some(round.list.server_cpu_ms? / body)
        });
        let server_cpu: Option<Vec<f64>> = server_cpu.collect();
        let lists = rounds.iter().map(|round| round.list.server_cpu_ms);
        let lists: Option<Vec<f64>> = lists.collect();
        Some(Self {
            checked: true,
            body_bytes,
            list_ms: each(|round| round.list.ms)?,
            body_ms: each(|round| round.body.ms)?,
            list_server_cpu_ms: lists.and_then(Spread::of),
            time_ratio: each(|round| round.list.ms / round.body.ms)?,
            server_cpu_ratio: server_cpu.and_then(Spread::of),
            client_cpu_ratio: each(|round| round.list.client_cpu_ms / round.body.client_cpu_ms)?,
            socket_ms: socket(|_, socket| socket.ms),
            socket_time_ratio: socket(|round, socket| round.list.ms / socket.ms),
            rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(list_ms: f64, body_ms: f64) -> BaselineRound {
        let of = |ms| Transfer {
            ms,
            server_cpu_ms: Some(ms / 2.0),
            client_cpu_ms: ms / 4.0,
        };
        BaselineRound {
            list_first: true,
            list: of(list_ms),
            body: of(body_ms),
            socket: Some(of(body_ms / 2.0)),
        }
    }

    /// Between two rounds this machine became twice as slow: a ratio of the medians would be 1.65.
    #[test]
    fn a_machine_that_slows_down_between_rounds_changes_no_ratio() {
        let rounds = vec![
            round(110.0, 100.0),
            round(220.0, 200.0),
            round(230.0, 200.0),
            round(105.0, 100.0),
        ];
        let baseline = Baseline::of(1, rounds).expect("rounds");
        let ratio = baseline.time_ratio;
        assert!((ratio.p50 - 1.1).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.min - 1.05).abs() < 1e-9 && (ratio.max - 1.15).abs() < 1e-9);
        assert_eq!(baseline.server_cpu_ratio, Some(ratio));
        let over_socket = baseline.socket_time_ratio.expect("of each round");
        assert!((over_socket.p50 - 2.2).abs() < 1e-9, "{over_socket:?}");
        assert_eq!(baseline.socket_ms.map(|socket| socket.p50), Some(75.0));
        assert_eq!(baseline.client_cpu_ratio, ratio);
        assert_eq!(baseline.body_ms.p50, 150.0);
        let cpu = baseline.list_server_cpu_ms.expect("of each round");
        assert_eq!((cpu.min, cpu.p50, cpu.max), (52.5, 82.5, 115.0));
    }

    #[test]
    fn a_server_that_is_not_ours_has_no_ratio_of_cpu() {
        let mut rounds = vec![round(1.0, 1.0), round(1.0, 1.0)];
        rounds[1].body.server_cpu_ms = None;
        rounds[1].list.server_cpu_ms = None;
        let baseline = Baseline::of(1, rounds).expect("rounds");
        assert_eq!(baseline.server_cpu_ratio, None);
        assert_eq!(baseline.list_server_cpu_ms, None);
        assert_eq!(Baseline::of(1, Vec::new()), None);
    }
}
