//! Each case of the default scenario end to end with 10,000 pods, and lists from the cache in JSON.
//! Each has its own server in another process; lists are over loopback, and every object is
//! checked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::client::config::ClientConfig;
use kube_api::client::{KubeAccess, Options};
use load::clients::go_clients::GoClients;
use load::driver::closed::{Clients, Job};
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListParameters};
use load::verify::Verifier;
use loadgen::progress::{Counted, Progress};
use loadgen::seed::kube::resource_of;
use loadgen::seed::{SeededSlices, seed};
use loadgen::servers::running::Running;
use loadgen::servers::target_spec::TargetSpec;
use loadgen::servers::{Contexts, Launcher};
use tokio::runtime::Runtime;
use workloads::scenario::Media;
use workloads::{DataSet, PlainList, Scenario, Strategy, Tier};

const OBJECTS: u64 = 10_000;
const ROOT: &str = "/registry/";

fn lists(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut scenario = Scenario::named(workloads::scenario::DEFAULT).expect("a built-in scenario");
    let mut spec = scenario.data_sets.remove(0);
    spec.objects = OBJECTS.try_into().expect("some objects");
    let data = Arc::new(DataSet::new(&spec));
    let mut group = c.benchmark_group("list_10k_pods");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(OBJECTS));
    let rows = [Tier::Etcd, Tier::Kube].into_iter().flat_map(|tier| {
        let rows = scenario.cases.of(tier).iter();
        rows.map(move |row| (tier, row.strategy, Media::Protobuf))
    });
    let json = (
        Tier::Kube,
        Strategy::Plain(PlainList::Consistent),
        Media::Json,
    );
    for (tier, strategy, media) in rows.chain([json]) {
        let encoding = match media {
            Media::Protobuf => "",
            Media::Json => "/json",
        };
        group.bench_function(format!("{tier}/{strategy}{encoding}"), |b| {
            let (clients, running) = runtime.block_on(start(tier, strategy, media, &data));
            // Criterion calls this for each sample. A list is read first, as cases are warmed up,
            // too: items in JSON are known from the first list on.
            runtime.block_on(measure(&clients, 1));
            b.iter_custom(|lists| runtime.block_on(measure(&clients, lists)));
            drop(clients);
            runtime.block_on(running.stop());
        });
    }
    group.finish();
}

/// Starts and seeds a server; returns it with one connected client.
async fn start(
    tier: Tier,
    strategy: Strategy,
    media: Media,
    data: &Arc<DataSet>,
) -> (Clients, Running) {
    let launcher = Launcher {
        own_program: env!("CARGO_BIN_EXE_loadgen").into(),
        connect: ClientConfig::new("http://127.0.0.1:1").expect("a URL; it is not connected to"),
        kube_access: KubeAccess::default(),
        contexts: Contexts::default(),
        serves_profiles: false,
    };
    let mut running = launcher
        .start(&TargetSpec::Bench, strategy)
        .await
        .expect("our own server starts");
    let phase = Progress::silent().phase("seeding", OBJECTS, Counted::Objects);
    let etcd = running
        .etcd
        .clone()
        .expect("our own server has an etcd tier");
    let expected = seed(
        &etcd,
        data,
        ROOT,
        &Arc::new(SeededSlices::default()),
        &phase,
    )
    .await
    .expect("our own server takes pods");
    if tier == Tier::Kube {
        running
            .start_kube(&[])
            .await
            .expect("our own HTTP tier starts");
    }
    let row = ListCase {
        tier,
        strategy,
        prefix: format!("{ROOT}{}", data.prefix()),
        resource: resource_of(data),
        parameters: ListParameters::new(media, Options::default()),
        go_clients: GoClients::default(),
    };
    let verifier = Verifier {
        root: ROOT.to_owned(),
        expected: Some(expected),
        by_node: HashMap::new(),
        latest: Arc::default(),
    };
    let clients = Clients::connect(1, &row, &TargetEndpoint::from(&running), verifier)
        .await
        .expect("the server is there");
    (clients, running)
}

async fn measure(clients: &Clients, lists: u64) -> Duration {
    let mut time = Duration::ZERO;
    for _ in 0..lists {
        for done in clients.round(Job::List).await {
            done.result
                .expect("a list that is complete, in order and unaltered");
            time += done.latency;
        }
    }
    time
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3))
    };
    targets = lists
}
criterion_main!(benches);
