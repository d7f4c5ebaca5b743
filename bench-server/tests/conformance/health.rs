//! Health and version, by gRPC and by HTTP on the same port.

use etcd_api::proto::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::proto::etcdserverpb::{AlarmRequest, AlarmType};
use etcd_api::proto::health::health_check_response::ServingStatus;
use etcd_api::proto::health::health_client::HealthClient;
use etcd_api::proto::health::{HealthCheckRequest, HealthListRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Request};

use crate::harness::{ONE_ENCODING, Target, cases};
use crate::maintenance::{status, storage_version_is_known};
use crate::request::everything;

cases![on ONE_ENCODING; metadata_may_be_large, grpc_health, http_paths, http_paths_under_alarms];

/// grpc-go accepts 16 MiB of metadata, hyper 16 KiB by default.
async fn metadata_may_be_large(t: Target) {
    let mut request = Request::new(everything());
    let token = "t".repeat(200_000).parse().expect("it is ASCII");
    request.metadata_mut().insert("token", token);
    t.kv().range(request).await.expect("it is not looked at");
}

async fn grpc_health(t: Target) {
    let mut health = HealthClient::new(t.channel.clone());
    let response = health
        .check(HealthCheckRequest {
            service: String::new(),
        })
        .await
        .expect("health")
        .into_inner();
    assert_eq!(response.status(), ServingStatus::Serving);
    let unknown = health
        .check(HealthCheckRequest {
            service: "nobody".into(),
        })
        .await
        .expect_err("an unknown service");
    assert_eq!(
        (unknown.code(), unknown.message()),
        (Code::NotFound, "unknown service")
    );
    let listed = health.list(HealthListRequest {}).await;
    let listed = listed.expect("every service").into_inner().statuses;
    let listed: Vec<_> = listed
        .iter()
        .map(|(name, s)| (&**name, s.status()))
        .collect();
    assert_eq!(listed, [("", ServingStatus::Serving)]);
    let mut watch = health
        .watch(HealthCheckRequest {
            service: String::new(),
        })
        .await
        .expect("health")
        .into_inner();
    let first = watch
        .message()
        .await
        .expect("no error")
        .expect("the current state");
    assert_eq!(first.status(), ServingStatus::Serving);
}

/// Sends `GET path` over HTTP/1.1 to the client port; returns status line and body.
async fn get(t: &Target, path: &str) -> (String, String) {
    let address = t.server.url.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("the client port");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("a request");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.expect("a response");
    let response = String::from_utf8(response).expect("text");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
    (
        head.lines().next().unwrap_or_default().to_owned(),
        body.to_owned(),
    )
}

/// Returns the value of a metric without labels, if `/metrics` has it.
pub(crate) async fn figure(t: &Target, name: &str) -> Option<f64> {
    let (_, body) = get(t, "/metrics").await;
    // etcd sends the body in chunks, each after a line with its size.
    let text: String = match body.starts_with('#') {
        true => body,
        false => body.split("\r\n").skip(1).step_by(2).collect(),
    };
    let figure = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(figure)
}

async fn http_paths(t: Target) {
    storage_version_is_known(&t).await;
    const OK: &str = "HTTP/1.1 200 OK";
    for path in ["/health", "/health?serializable=true"] {
        let (line, body) = get(&t, path).await;
        assert_eq!(
            (&*line, body.trim()),
            (OK, r#"{"health":"true","reason":""}"#),
            "{path}"
        );
    }
    for path in ["/livez", "/readyz"] {
        let (line, body) = get(&t, path).await;
        assert_eq!((&*line, body.trim()), (OK, "ok"), "{path}");
    }
    let (line, body) = get(&t, "/readyz?verbose&exclude=data_corruption").await;
    let mut checks: Vec<&str> = body.lines().collect();
    checks.sort_unstable();
    assert_eq!(
        (&*line, &checks[..]),
        (
            OK,
            &[
                "[+]linearizable_read ok",
                "[+]non_learner ok",
                "[+]serializable_read ok",
                "ok"
            ][..]
        )
    );
    for path in [
        "/livez/serializable_read",
        "/readyz/serializable_read",
        "/readyz/linearizable_read",
        "/readyz/non_learner",
        "/readyz/data_corruption",
    ] {
        let (line, body) = get(&t, path).await;
        assert_eq!((&*line, body.trim()), (OK, "ok"), "{path}");
    }
    for path in [
        "/livez/data_corruption",
        "/readyz/",
        "/readyz/ping",
        "/livez/serializable_read/",
    ] {
        let (line, _) = get(&t, path).await;
        assert!(line.starts_with("HTTP/1.1 404"), "{path}: {line}");
    }
    let (line, body) = get(&t, "/version").await;
    assert_eq!(line, OK);
    let version: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert!(
        version["etcdserver"]
            .as_str()
            .is_some_and(|v| v.starts_with("3.7.")),
        "{body}"
    );
    assert_eq!(
        (&version["etcdcluster"], &version["storage"]),
        (&"3.7.0".into(), &"3.7.0".into())
    );
    let (line, body) = get(&t, "/metrics").await;
    assert_eq!(line, OK);
    assert!(body.contains("# TYPE"), "Prometheus text");
    let (line, _) = get(&t, "/nothing-here").await;
    assert!(line.starts_with("HTTP/1.1 404"), "{line}");
}

async fn http_paths_under_alarms(t: Target) {
    let member_id = status(&t).await.header.expect("header").member_id;
    let raise = async |alarm: AlarmType| {
        let request = AlarmRequest {
            action: AlarmAction::Activate.into(),
            member_id,
            alarm: alarm.into(),
        };
        t.maintenance().alarm(request).await.expect("an alarm");
    };
    const OK: &str = "HTTP/1.1 200 OK";
    const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable";
    let health = async |path| {
        let (line, body) = get(&t, path).await;
        (line, body)
    };
    let well = (OK.to_owned(), r#"{"health":"true","reason":""}"#.to_owned());
    let ill = |alarm: &str| {
        let body = format!("{{\"health\":\"false\",\"reason\":\"ALARM {alarm}\"}}\n");
        (UNAVAILABLE.to_owned(), body)
    };
    raise(AlarmType::Nospace).await;
    assert_eq!(health("/health").await, ill("NOSPACE"));
    assert_eq!(health("/health?exclude=CORRUPT").await, ill("NOSPACE"));
    assert_eq!(health("/health?exclude=NOSPACE").await, well);
    let (line, _) = get(&t, "/readyz").await;
    assert_eq!(line, OK, "reads go on");
    raise(AlarmType::Corrupt).await;
    assert_eq!(health("/health?exclude=NOSPACE").await, ill("CORRUPT"));
    assert_eq!(
        health("/health?exclude=NOSPACE&exclude=CORRUPT").await,
        well
    );
    const FAILED: &str = "[-]data_corruption failed: alarm activated: CORRUPT";
    let (line, body) = get(&t, "/readyz/data_corruption").await;
    assert_eq!((&*line, body.trim()), (UNAVAILABLE, FAILED));
    let (line, body) = get(&t, "/readyz").await;
    assert_eq!(line, UNAVAILABLE);
    assert!(body.lines().any(|line| line == FAILED), "{body}");
    let (line, _) = get(&t, "/readyz?exclude=data_corruption").await;
    assert_eq!(line, OK);
    let (line, _) = get(&t, "/livez").await;
    assert_eq!(line, OK);
}
