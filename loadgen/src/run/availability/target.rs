//! What a started target has for a row: how it encodes, who answers, and why it cannot have the
//! row.

use load::operation::list::ListCase;
use report::result::ServedFrom;
use workloads::scenario::Media;
use workloads::{EtcdResponse, GoClient, Strategy, Tier};

use crate::servers::running::Running;

/// How the server encodes what it sends for this row.
pub(in crate::run) fn encoding(row: &ListCase, running: &Running) -> &'static str {
    match (row.tier, row.strategy) {
        (_, Strategy::NoLists | Strategy::NoWatches) => "none",
        (Tier::Kube, _) if row.asks.media == Media::Json => "json",
        (Tier::Kube, _) => "protobuf",
        (Tier::Etcd, strategy) => {
            let client = strategy.go_client();
            let request = client.map_or(strategy, GoClient::same_request);
            match request.etcd_response() {
                Some(EtcdResponse::Stream) => "stream",
                _ => running.unary_encoding,
            }
        }
    }
}

/// Which part of the server answers; the watch cache only where the server's own counters say so
/// later.
pub(in crate::run) fn served_from(row: &ListCase) -> ServedFrom {
    match row.tier {
        Tier::Etcd => ServedFrom::Store,
        Tier::Kube => ServedFrom::Unknown,
    }
}

/// Why this target cannot have the row although it speaks the protocol; `None` when it may.
pub(in crate::run) fn refused(row: &ListCase, running: &Running) -> Option<String> {
    let program = &running.setup.program;
    let is_incremental = row.strategy.etcd_response() == Some(EtcdResponse::Incremental);
    match (row.tier, row.strategy, running.unary_encoding) {
        (Tier::Etcd, _, "buffered") if is_incremental => Some(format!(
            "{program} has no incremental encoding: it builds a unary answer whole before sending"
        )),
        (Tier::Etcd, _, "unknown") if is_incremental => Some(format!(
            "how {program} encodes a unary answer cannot be seen from outside: row `unary` has it, whichever it is"
        )),
        (
            Tier::Kube,
            Strategy::ReadYourWrite
            | Strategy::WatchSharded(_)
            | Strategy::WatchClientFiltered(_)
            | Strategy::NoWatches,
            _,
        ) if running.etcd.is_none() => {
            Some("it writes to the etcd behind the API, which is not known".to_owned())
        }
        (_, Strategy::GoClient(client), _) => refused_to(row, client, running),
        _ => None,
    }
}

/// Why a Go client cannot list from this target; `None` when it may. The programs know no
/// credentials, and only pods.
fn refused_to(row: &ListCase, client: GoClient, running: &Running) -> Option<String> {
    let etcd = running.etcd.as_ref().filter(|_| row.tier == Tier::Etcd);
    let secured = etcd.is_some_and(|etcd| {
        etcd.user.is_some()
            || etcd
                .endpoints
                .iter()
                .any(|uri| uri.scheme_str() == Some("https"))
    });
    let access = &running.kube_access;
    let kube = running
        .kube_url
        .as_deref()
        .filter(|_| row.tier == Tier::Kube);
    let kube_secured = kube.is_some_and(|url| url.starts_with("https:") || access.has_token());
    let asks = &row.asks;
    if secured || kube_secured {
        return Some(format!(
            "{} is given no credentials and no CA",
            client.program()
        ));
    }
    if row.tier == Tier::Kube && row.resource != "pods" {
        return Some(format!("{client} lists pods, not {}", row.resource));
    }
    (asks.namespace.is_some() || asks.own_namespaces.is_some())
        .then(|| format!("{client} lists all namespaces, and there are others than the run's"))
}
