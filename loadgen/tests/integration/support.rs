//! What several tests need: servers of every kind, and runs of the program.

pub(crate) mod compact_elsewhere;
pub(crate) mod connect_proxy;
pub(crate) mod etcd_cluster;
pub(crate) mod fake_etcd;
pub(crate) mod fake_kube;
pub(crate) mod grpc_server;
pub(crate) mod maintenance;
pub(crate) mod probed;
pub(crate) mod program;
pub(crate) mod seeded_pods;
pub(crate) mod served;
pub(crate) mod small_run;
#[path = "../../report/tests/support/synthetic.rs"]
pub(crate) mod synthetic;
