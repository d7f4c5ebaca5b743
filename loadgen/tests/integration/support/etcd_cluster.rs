//! A cluster of etcd members, as an existing endpoint.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{MoveLeaderRequest, StatusRequest, StatusResponse};
use tempfile::TempDir;
use test_support::ports::free_port;

/// Time limit for members to elect a leader.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A running cluster; its members are killed and waited for when dropped.
pub(crate) struct EtcdCluster {
    members: Vec<Child>,
    urls: Vec<String>,
    _folder: TempDir,
}

impl EtcdCluster {
    /// Starts a cluster of the etcd that `scripts/oracle` installs; returns `None` if it is
    /// missing.
    pub(crate) fn start(members: usize) -> Option<Self> {
        let program = test_support::program_or_skip("ETCD_BIN", "etcd")?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Members must know each other's ports before they start.
        let ports: Vec<_> = (0..2 * members).map(|_| free_port()).collect();
        let (clients, peers) = ports.split_at(members);
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let all: Vec<_> = peers
            .iter()
            .enumerate()
            .map(|(nth, port)| format!("m{nth}={}", url(port)))
            .collect();
        let start = |nth: usize| {
            Command::new(&program)
                .args(["--name", &format!("m{nth}")])
                .arg("--data-dir")
                .arg(folder.path().join(format!("m{nth}")))
                .args(["--listen-client-urls", &url(&clients[nth])])
                .args(["--advertise-client-urls", &url(&clients[nth])])
                .args(["--listen-peer-urls", &url(&peers[nth])])
                .args(["--initial-advertise-peer-urls", &url(&peers[nth])])
                .args(["--initial-cluster", &all.join(",")])
                .args(["--unsafe-no-fsync", "--log-level", "error"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts")
        };
        let cluster = Self {
            members: (0..members).map(start).collect(),
            urls: clients.iter().map(url).collect(),
            _folder: folder,
        };
        cluster.until_ready();
        Some(cluster)
    }

    /// Returns the URLs of the members.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    /// Returns the number of the leader.
    pub(crate) async fn leader(&self) -> usize {
        for (nth, url) in self.urls.iter().enumerate() {
            let status = status(url).await.expect("it is there");
            if status
                .header
                .is_some_and(|header| header.member_id == status.leader)
            {
                return nth;
            }
        }
        panic!("nobody leads");
    }

    /// Transfers the leadership to another member, without an election.
    pub(crate) async fn move_leader(&self) {
        let leader = self.leader().await;
        let next = &self.urls[(leader + 1) % self.urls.len()];
        let next = status(next).await.expect("it is there");
        let target_id = next.header.expect("a header").member_id;
        let config = ClientConfig::new(&self.urls[leader]).expect("a URL");
        let client = Client::connect(config).await.expect("it is there");
        let mut maintenance = client.maintenance();
        let moved = maintenance.move_leader(MoveLeaderRequest { target_id });
        moved.await.expect("it leads");
    }

    /// Stops a member for `hangs_for`, so that requests to it wait, and then kills it by SIGKILL.
    pub(crate) fn kill_hanging(&mut self, nth: usize, hangs_for: Duration) {
        let member = &mut self.members[nth];
        let pid = nix::unistd::Pid::from_raw(member.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::SIGSTOP).expect("it runs");
        thread::sleep(hangs_for);
        member.kill().expect("it runs");
        member.wait().expect("it is ours");
    }

    /// Waits until every member knows a leader.
    fn until_ready(&self) {
        let begun = Instant::now();
        for url in self.urls.clone() {
            // Uses a new runtime on a new thread, because the caller may be inside a runtime.
            let asked = thread::spawn(move || {
                let runtime = tokio::runtime::Runtime::new().expect("a runtime");
                runtime.block_on(async {
                    while !has_leader(&url).await {
                        assert!(begun.elapsed() < READY_TIMEOUT, "{url} finds no leader");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                });
            });
            asked.join().expect("it finds a leader");
        }
    }
}

async fn has_leader(url: &str) -> bool {
    status(url).await.is_some_and(|status| status.leader != 0)
}

/// Returns the status of a member, or `None` if it does not respond.
async fn status(url: &str) -> Option<StatusResponse> {
    let config = ClientConfig::new(url).expect("a URL");
    let client = Client::connect(config).await.ok()?;
    let status = client.maintenance().status(StatusRequest {}).await;
    status.ok().map(tonic::Response::into_inner)
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The member may have exited already; either way it must be reaped.
            member.kill().ok();
            member.wait().ok();
        }
    }
}
