//! Lists compared with a baseline, the same number of bytes from one contiguous buffer: time, CPU
//! time of both sides, memory of the server.
//!
//! `lists` uses plain sockets. `tls` does the same over TLS and plain sockets, interleaved; the
//! baseline of both is over plain sockets.
//!
//! `WIRE_ROUNDS` (default 5) is the number of rounds of every row; `WIRE_FRAME` (default 262144) is
//! the frame size that the client allows.

use std::time::Instant;

use etcd_api::client::list_validator::Object;
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::RangeRequest;
use workloads::Fingerprint;

use super::server::{Server, own_cpu, runtime};
use super::{median, setting};

const PREFIX: &[u8] = b"/registry/pods/";
const MIB: f64 = 1024.0 * 1024.0;

/// A way to read everything.
#[derive(Debug, Clone, Copy)]
enum Way {
    Baseline,
    Stream,
    Unary,
    Paged(i64),
}

const LISTS: [Way; 4] = [Way::Stream, Way::Unary, Way::Paged(10_000), Way::Paged(500)];

/// A server, and its client.
struct Side {
    name: &'static str,
    server: Server,
    client: RawConnection,
}

impl Side {
    async fn new(name: &'static str, mut server: Server) -> Self {
        server.config.http2.max_frame_bytes = setting("WIRE_FRAME", 256 << 10) as u32;
        let client = server.connect().await;
        Self {
            name,
            server,
            client,
        }
    }
}

pub(crate) fn run() {
    shapes(&[("", || Server::start(&[]))]);
}

pub(crate) fn run_tls() {
    shapes(&[("", || Server::start(&[])), (" tls", Server::start_tls)]);
}

type Start = (&'static str, fn() -> Server);

fn shapes(starts: &[Start]) {
    let only = std::env::var("WIRE_SHAPE").ok();
    for (objects, value_bytes) in [(150_000, 10_000), (500_000, 100), (10_000, 100_000)] {
        let shape = format!("{objects}x{value_bytes}");
        if only.as_ref().is_none_or(|wanted| *wanted == shape) {
            runtime().block_on(shape_table(starts, objects, value_bytes));
        }
    }
}

async fn shape_table(starts: &[Start], objects: u64, value_bytes: usize) {
    let mut sides = Vec::new();
    for (name, start) in starts {
        let server = start();
        server.seed(objects, value_bytes).await;
        sides.push(Side::new(name, server).await);
    }
    let whole = whole();
    let whole_list = sides[0].client.read_unchecked(ListRpc::Range, &whole);
    let bytes = whole_list.await.expect("a list");
    let baseline = Side::new("", Server::start_baseline(bytes)).await;
    println!(
        "\n{objects} x {value_bytes} B, {:.0} MB, one client: median (lowest) of {} rounds",
        bytes as f64 / 1e6,
        rounds()
    );
    println!(
        "{:<16} {:>9} {:>9} {:>7} {:>10} {:>10} {:>9}",
        "", "wall ms", "lowest", "ratio", "server ms", "client ms", "above MiB"
    );
    let mut rows: Vec<(&Side, Way, Row)> = vec![(&baseline, Way::Baseline, Row::default())];
    for way in LISTS {
        rows.extend(sides.iter().map(|side| (side, way, Row::default())));
    }
    for _ in 0..rounds() {
        for (side, way, row) in &mut rows {
            row.measure(side, *way, objects, bytes).await;
        }
    }
    let baseline_ms = median(&mut rows[0].2.wall);
    for (side, way, row) in &mut rows {
        let wall = median(&mut row.wall);
        println!(
            "{:<16} {:>9.1} {:>9.1} {:>7.2} {:>10.1} {:>10.1} {:>9.1}",
            format!("{way:?}{}", side.name).to_lowercase(),
            wall,
            row.wall[0],
            wall / baseline_ms,
            median(&mut row.server),
            median(&mut row.client),
            row.above.iter().copied().fold(0.0, f64::max),
        );
    }
}

fn rounds() -> u64 {
    setting("WIRE_ROUNDS", 5)
}

/// Times in milliseconds, and memory in MiB above the resident memory before.
#[derive(Debug, Default)]
struct Row {
    wall: Vec<f64>,
    server: Vec<f64>,
    client: Vec<f64>,
    above: Vec<f64>,
}

impl Row {
    async fn measure(&mut self, side: &Side, way: Way, objects: u64, bytes: u64) {
        let Side { server, client, .. } = side;
        if setting("WIRE_SETTLE", 0) == 1 && !matches!(way, Way::Baseline) {
            server.settle().await;
        }
        server.reset_peak();
        let (idle, _) = server.memory();
        let (began, server_cpu, client_cpu) = (Instant::now(), server.cpu(), own_cpu());
        match way {
            Way::Baseline => client
                .read_body_unchecked("/", bytes)
                .await
                .expect("its bytes"),
            Way::Stream => check(client, ListRpc::RangeStream, objects).await,
            Way::Unary => check(client, ListRpc::Range, objects).await,
            Way::Paged(limit) => pages(client, limit, objects).await,
        }
        self.wall.push(began.elapsed().as_secs_f64() * 1e3);
        self.server
            .push((server.cpu() - server_cpu).as_secs_f64() * 1e3);
        self.client
            .push((own_cpu() - client_cpu).as_secs_f64() * 1e3);
        let (_, peak) = server.memory();
        self.above.push(peak.saturating_sub(idle) as f64 / MIB);
    }
}

pub(crate) fn whole() -> RangeRequest {
    RangeRequest {
        key: PREFIX.to_vec().into(),
        range_end: prefix_end(PREFIX).into(),
        ..RangeRequest::default()
    }
}

async fn check(client: &RawConnection, rpc: ListRpc, objects: u64) {
    let mut seen = Fingerprint::default();
    let mut visit = |object: Object<'_>| {
        seen.add(object.key, object.value);
    };
    let walked = client.validate(rpc, &whole(), &mut visit, || {}).await;
    walked.expect("a well-formed list");
    assert_eq!(seen.objects, objects);
}

async fn pages(client: &RawConnection, limit: i64, objects: u64) {
    let mut request = RangeRequest { limit, ..whole() };
    let mut seen = Fingerprint::default();
    let mut last = Vec::new();
    loop {
        let mut visit = |object: Object<'_>| {
            seen.add(object.key, object.value);
            last.clear();
            last.extend_from_slice(object.key);
        };
        let walked = client.validate(ListRpc::Range, &request, &mut visit, || {});
        let summary = walked.await.expect("a well-formed page");
        if !summary.more {
            assert_eq!(seen.objects, objects);
            return;
        }
        if request.revision == 0 {
            request.revision = summary.revision;
        }
        last.push(0);
        request.key = last.clone().into();
    }
}
