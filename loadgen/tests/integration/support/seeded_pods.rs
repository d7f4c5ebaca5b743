//! bench-server with pods that loadgen wrote.

use std::sync::Arc;

use etcd_api::client::config::ClientConfig;
use kube_api::client::KubeAccess;
use load::verify::Expected;
use loadgen::progress::{Counted, Progress};
use loadgen::seed::{SeededSlices, seed};
use loadgen::servers::running::Running;
use loadgen::servers::target_spec::TargetSpec;
use loadgen::servers::{Contexts, Launcher};
use workloads::{DataSet, DataSetSpec, Kind, Strategy};

/// Under which the pods are stored.
pub(crate) const ROOT: &str = "/registry/";

/// A server that holds pods. Its Kubernetes tier has not been started.
pub(crate) struct SeededPods {
    pub(crate) running: Running,
    pub(crate) data: Arc<DataSet>,
    /// What a list of all pods must contain.
    pub(crate) expected: Expected,
}

impl SeededPods {
    /// Starts a server as a case of `strategy` needs it, and writes this many pods.
    pub(crate) async fn start(strategy: Strategy, pods: u64) -> Self {
        let launcher = Launcher {
            own_program: env!("CARGO_BIN_EXE_loadgen").into(),
            connect: ClientConfig::new("http://127.0.0.1:1").expect("a URL"),
            kube_access: KubeAccess::default(),
            contexts: Contexts::default(),
            serves_profiles: false,
        };
        let started = launcher.start(&TargetSpec::Bench, strategy).await;
        let running = started.expect("our server starts");
        let data = Arc::new(DataSet::new(&DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: pods.try_into().expect("some"),
            object_size: None,
            object_sizes: None,
            namespaces: 4.try_into().ok(),
            nodes: 2.try_into().ok(),
            seed: 1,
        }));
        let etcd = running.etcd.as_ref().expect("it has an etcd tier");
        let phase = Progress::silent().phase("seeding", pods, Counted::Objects);
        let slices = Arc::new(SeededSlices::default());
        let expected = seed(etcd, &data, ROOT, &slices, &phase).await;
        Self {
            running,
            data,
            expected: expected.expect("it takes what is written"),
        }
    }
}
