//! Lists from the Kubernetes tier beside a baseline, the same bytes from one contiguous buffer:
//! time, CPU of both sides, memory of the server; and what its cache took to fill.
//!
//! `WIRE_ROUNDS` (default 5) rounds of every row; `WIRE_PODS` (default 150000) pods of `pods-150k`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube_api::envelope::MAGIC;
use kube_api::protobuf::{find_bytes, get_varint};
use tokio::net::TcpStream;
use workloads::{DataSet, Scenario};

use super::server::{Server, own_cpu, runtime};
use super::{median, setting};

const PODS: &str = "/api/v1/pods";
const WATCH_LIST: &str =
    "watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan";
/// Marks the bookmark behind the initial events.
const LAST_EVENT: &[u8] = b"k8s.io/initial-events-end";
const MIB: f64 = 1024.0 * 1024.0;

/// A way to get everything.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Baseline,
    Consistent,
    Paged,
    WatchList,
}

#[derive(Debug, Clone, Copy)]
enum Media {
    Protobuf,
    Json,
}

/// Each behind the baseline that it is held against.
const ROWS: [(Way, Media); 8] = [
    (Way::Baseline, Media::Protobuf),
    (Way::Consistent, Media::Protobuf),
    (Way::Paged, Media::Protobuf),
    (Way::WatchList, Media::Protobuf),
    (Way::Baseline, Media::Json),
    (Way::Consistent, Media::Json),
    (Way::WatchList, Media::Json),
    (Way::Paged, Media::Json),
];

pub(crate) fn run() {
    runtime().block_on(table(setting("WIRE_PODS", 150_000)));
}

async fn table(objects: u64) {
    let storage = Server::start(&[]);
    let data = pods(objects);
    let pods = (0..objects).map(|i| ([b"/registry/", &data.key(i)[..]].concat(), data.value(i)));
    storage.fill(pods).await;

    let began = (Instant::now(), storage.cpu());
    let server = storage.start_kube();
    let mut client = Client::connect(&server).await;
    while client.get("/readyz", Media::Json).await.1 != 200 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    println!(
        "\n{objects} pods: filled in {:.2} s, {:.2} s of CPU and {:.2} s of storage's",
        began.0.elapsed().as_secs_f64(),
        server.cpu().as_secs_f64(),
        (storage.cpu() - began.1).as_secs_f64()
    );
    server.settle().await;
    println!("{:.0} MiB resident at rest", server.memory().0 as f64 / MIB);

    println!(
        "{:<22} {:>8} {:>9} {:>9} {:>7} {:>10} {:>10} {:>9}",
        "", "MB", "wall ms", "lowest", "ratio", "server ms", "client ms", "above MiB"
    );
    let mut rows: Vec<Row> = ROWS.iter().map(|_| Row::default()).collect();
    let rounds = setting("WIRE_ROUNDS", 5);
    let lengths = [
        client.whole(Media::Protobuf).await,
        client.whole(Media::Json).await,
    ];
    let mut baselines = Vec::new();
    for bytes in lengths {
        let server = Server::start_baseline(bytes);
        let client = Client::connect(&server).await;
        baselines.push((server, client));
    }
    for _ in 0..rounds {
        for ((way, media), row) in ROWS.iter().zip(&mut rows) {
            let (server, client) = match way {
                Way::Baseline => {
                    let (server, client) = &mut baselines[*media as usize];
                    (&*server, client)
                }
                _ => (&server, &mut client),
            };
            row.measure(server, client, *way, *media).await;
        }
    }
    let mut baseline_ms = 0.0;
    for ((way, media), row) in ROWS.iter().zip(&mut rows) {
        let wall = median(&mut row.wall);
        if *way == Way::Baseline {
            baseline_ms = wall;
        }
        println!(
            "{:<22} {:>8.1} {:>9.1} {:>9.1} {:>7.2} {:>10.1} {:>10.1} {:>9.1}",
            format!("{way:?} {media:?}").to_lowercase(),
            row.bytes as f64 / 1e6,
            wall,
            row.wall[0],
            wall / baseline_ms,
            median(&mut row.server),
            median(&mut row.client),
            row.above.iter().copied().fold(0.0, f64::max),
        );
    }
}

/// The first pods of `pods-150k`.
fn pods(objects: u64) -> DataSet {
    let mut scenario = Scenario::named("pods-150k").expect("a built-in scenario");
    let mut spec = scenario.data_sets.remove(0);
    spec.objects = objects.try_into().expect("some objects");
    DataSet::new(&spec)
}

/// Milliseconds, and MiB above what was resident before.
#[derive(Debug, Default)]
struct Row {
    bytes: u64,
    wall: Vec<f64>,
    server: Vec<f64>,
    client: Vec<f64>,
    above: Vec<f64>,
}

impl Row {
    async fn measure(&mut self, server: &Server, client: &mut Client, way: Way, media: Media) {
        server.reset_peak();
        let (idle, _) = server.memory();
        let (began, server_cpu, client_cpu) = (Instant::now(), server.cpu(), own_cpu());
        self.bytes = match way {
            Way::Baseline => client.get("/", media).await.0,
            Way::Consistent => client.whole(media).await,
            Way::Paged => client.pages(media).await,
            Way::WatchList => client.watch_list(server, media).await,
        };
        self.wall.push(began.elapsed().as_secs_f64() * 1e3);
        self.server
            .push((server.cpu() - server_cpu).as_secs_f64() * 1e3);
        self.client
            .push((own_cpu() - client_cpu).as_secs_f64() * 1e3);
        let (_, peak) = server.memory();
        self.above.push(peak.saturating_sub(idle) as f64 / MIB);
    }
}

/// A connection whose answers are counted and not looked at.
struct Client(SendRequest<Empty<Bytes>>);

impl Client {
    async fn connect(server: &Server) -> Self {
        let address = server.config.endpoints[0].authority().expect("an address");
        let socket = TcpStream::connect(address.as_str()).await;
        let (sender, connection) = handshake(TokioIo::new(socket.expect("it accepts")))
            .await
            .expect("HTTP/1.1");
        tokio::spawn(async move { connection.await.unwrap_or_default() });
        Self(sender)
    }

    async fn ask(&mut self, path: &str, media: Media) -> (Incoming, u16) {
        let accept = match media {
            Media::Protobuf => kube_api::envelope::MEDIA_TYPE,
            Media::Json => "application/json",
        };
        let request = Request::get(path)
            .header(header::HOST, "bench")
            .header(header::ACCEPT, accept)
            .body(Empty::new())
            .expect("a request");
        self.0.ready().await.expect("connected");
        let response = self.0.send_request(request).await.expect("an answer");
        let code = response.status().as_u16();
        (response.into_body(), code)
    }

    /// Bytes of an answer, and its code.
    async fn get(&mut self, path: &str, media: Media) -> (u64, u16) {
        let (mut body, code) = self.ask(path, media).await;
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.expect("a whole body");
            bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        (bytes, code)
    }

    async fn whole(&mut self, media: Media) -> u64 {
        let (bytes, code) = self.get(PODS, media).await;
        assert_eq!(code, 200);
        bytes
    }

    /// Bytes of all pages of 500 pods.
    async fn pages(&mut self, media: Media) -> u64 {
        let (mut bytes, mut token) = (0, String::new());
        loop {
            let path = format!("{PODS}?limit=500&continue={token}");
            let (mut body, _) = self.ask(&path, media).await;
            let mut head: Option<Bytes> = None;
            while let Some(frame) = body.frame().await {
                let data = frame.expect("a whole body").into_data();
                let data = data.unwrap_or_default();
                bytes += data.len() as u64;
                head.get_or_insert(data);
            }
            let head = head.expect("a list");
            token = match media {
                Media::Protobuf => protobuf_token(&head).expect("a list"),
                Media::Json => json_token(&head),
            };
            if token.is_empty() {
                return bytes;
            }
        }
    }

    /// Bytes of the initial events, on a connection of their own, which is closed behind them.
    async fn watch_list(&mut self, server: &Server, media: Media) -> u64 {
        let mut client = Self::connect(server).await;
        let (mut body, _) = client.ask(&format!("{PODS}?{WATCH_LIST}"), media).await;
        let mut bytes = 0;
        loop {
            let frame = body.frame().await.expect("it goes on");
            let data = frame.expect("a whole piece").into_data();
            let data = data.unwrap_or_default();
            bytes += data.len() as u64;
            let tail = &data[data.len().saturating_sub(512)..];
            if tail
                .windows(LAST_EVENT.len())
                .any(|text| text == LAST_EVENT)
            {
                return bytes;
            }
        }
    }
}

/// The token in the first bytes of a list: type, then the list, whose metadata is its first field.
fn protobuf_token(head: &[u8]) -> Option<String> {
    fn field(bytes: &[u8]) -> Option<(usize, &[u8])> {
        let (_tag, rest) = bytes.split_first()?;
        let (length, taken) = get_varint(rest)?;
        Some((length as usize, &rest[taken..]))
    }
    let (length, rest) = field(head.strip_prefix(MAGIC)?)?;
    let (_, list) = field(&rest[length..])?;
    let (length, metadata) = field(list)?;
    let token = find_bytes(&metadata[..length], 3).ok()??;
    String::from_utf8(token.to_vec()).ok()
}

fn json_token(head: &[u8]) -> String {
    let head = String::from_utf8_lossy(&head[..head.len().min(1024)]);
    let metadata = head.split("\"items\"").next().unwrap_or_default();
    let behind = metadata.split("\"continue\":\"").nth(1);
    let token = behind.and_then(|behind| behind.split('"').next());
    token.unwrap_or_default().to_owned()
}
