//! The servers of a run: one, or the members of an etcd cluster.

use std::thread;

use test_support::ports::free_port;
use test_support::proxy::Proxy;

use crate::peer::{Peer, Server};

/// A server, and the relay in front of it, whose connections can be cut.
pub(crate) struct Member {
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
}

/// Starts one server, or an etcd cluster of several.
///
/// # Errors
/// A message if a server does not start.
pub(crate) fn start(peer: Peer, flags: &[&str], count: usize) -> Result<Vec<Member>, String> {
    let all: Vec<Vec<String>> = match count {
        1 => vec![flags.iter().map(|flag| (*flag).to_owned()).collect()],
        _ => cluster_flags(count),
    };
    // A member is ready once a majority of the members is running.
    let starting = all.into_iter().map(|flags| {
        thread::spawn(move || {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let server = Server::start(peer, &flags)?;
            let proxy = Proxy::start(&server.url);
            Ok(Member { server, proxy })
        })
    });
    let starting: Vec<_> = starting.collect();
    let started = starting.into_iter().map(|one| one.join());
    started
        .map(|one| one.map_err(|_| "a member's thread panicked".to_owned())?)
        .collect()
}

/// Returns the flags of each member, which override those of a single server. Elections are short,
/// so that several fit into a run.
fn cluster_flags(count: usize) -> Vec<Vec<String>> {
    // Members must know each other's ports before they start.
    let ports: Vec<_> = (0..count).map(|_| free_port()).collect();
    let url = |nth: usize| format!("http://127.0.0.1:{}", ports[nth]);
    let named = |nth: usize| format!("m{nth}={}", url(nth));
    let cluster: Vec<String> = (0..count).map(named).collect();
    let flags = |nth: usize| {
        vec![
            format!("--name=m{nth}"),
            format!("--listen-peer-urls={}", url(nth)),
            format!("--initial-advertise-peer-urls={}", url(nth)),
            format!("--initial-cluster={}", cluster.join(",")),
            "--heartbeat-interval=20".to_owned(),
            "--election-timeout=200".to_owned(),
        ]
    };
    (0..count).map(flags).collect()
}
