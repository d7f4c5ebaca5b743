//! What a started target offers for a case: the encoding of its responses, the part of the server
//! that serves them, and why it cannot run the case.

use kube_api::GroupVersionResource;
use load::operation::list::ListCase;
use report::result::ServedFrom;
use workloads::scenario::Media;
use workloads::{EtcdResponse, GoClient, PlainList, Strategy, Tier};

use crate::servers::running::Running;

/// Returns how the server encodes its responses in this case.
pub(in crate::run) fn encoding(case: &ListCase, running: &Running) -> &'static str {
    match (case.tier, case.strategy) {
        (_, Strategy::NoLists | Strategy::NoWatches) => "none",
        (Tier::Kube, _) if case.parameters.media == Media::Json => "json",
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

/// Returns which part of the server serves the case. Whether that is the watch cache is known only
/// later, from the server's own counters.
pub(in crate::run) fn served_from(case: &ListCase) -> ServedFrom {
    match case.tier {
        Tier::Etcd => ServedFrom::Store,
        Tier::Kube => ServedFrom::Unknown,
    }
}

/// Returns why this target cannot run the case although it serves the tier; `None` if it may.
pub(in crate::run) fn refused(case: &ListCase, running: &Running) -> Option<String> {
    if let Some(reason) = refused_of_resource(case) {
        return Some(reason);
    }
    let program = &running.setup.program;
    let is_incremental = case.strategy.etcd_response() == Some(EtcdResponse::Incremental);
    match (case.tier, case.strategy, running.unary_encoding) {
        (Tier::Etcd, _, "buffered") if is_incremental => Some(format!(
            "{program} has no incremental encoding: it builds a unary answer whole before sending"
        )),
        (Tier::Etcd, _, "unknown") if is_incremental => Some(format!(
            "how {program} encodes a unary answer cannot be seen from outside: case `unary` has it, whichever it is"
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
        (_, Strategy::GoClient(client), _) => refused_to(case, client, running),
        _ => None,
    }
}

/// Returns why the resource does not support the case; `None` if it does.
fn refused_of_resource(case: &ListCase) -> Option<String> {
    if case.tier != Tier::Kube || case.strategy == Strategy::NoLists {
        return None;
    }
    let name = &case.resource.name;
    if !case.resource.has_protobuf && case.parameters.media == Media::Protobuf {
        return Some(format!(
            "{name} is served in JSON only, and this case reads protobuf"
        ));
    }
    let list = case.strategy.plain().and_then(PlainList::kube);
    let is_watch = list.is_some_and(|list| list.is_watch);
    (is_watch && !case.resource.is_watchable).then(|| format!("{name} cannot be watched"))
}

/// Returns why a Go client cannot list from this target; `None` if it can. The Go programs are
/// given no credentials, and they list only pods, in all namespaces.
fn refused_to(case: &ListCase, client: GoClient, running: &Running) -> Option<String> {
    let etcd = running.etcd.as_ref().filter(|_| case.tier == Tier::Etcd);
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
        .filter(|_| case.tier == Tier::Kube);
    let kube_secured = kube.is_some_and(|url| url.starts_with("https:") || access.has_token());
    let parameters = &case.parameters;
    if secured || kube_secured {
        return Some(format!(
            "{} is given no credentials and no CA",
            client.program()
        ));
    }
    let resource = &case.resource.name;
    if case.tier == Tier::Kube && *resource != GroupVersionResource::core("pods") {
        return Some(format!("{client} lists pods, not {resource}"));
    }
    (parameters.namespace.is_some() || parameters.own_namespaces.is_some())
        .then(|| format!("{client} lists all namespaces, and there are others than the run's"))
}
