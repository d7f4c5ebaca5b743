//! The plain HTTP paths on etcd's client port: health, version, metrics.

use http::{Method, Response, StatusCode, Uri, header};
use prometheus_client::registry::Registry;
use serde_json::json;

use super::{Node, opaque};
use crate::metrics;
use crate::wire::body::ResponseBody;

/// Answers one HTTP/1.1 (or non-gRPC HTTP/2) request.
pub async fn serve(
    node: &Node,
    registry: &Registry,
    method: Method,
    uri: Uri,
) -> Response<ResponseBody> {
    const JSON: &str = "application/json";
    const TEXT: &str = "text/plain; charset=utf-8";
    match (&method, uri.path()) {
        (&Method::GET, "/health") => {
            let (code, health, reason) = match node.store.alarms().first() {
                None => (StatusCode::OK, "true", String::new()),
                Some(alarm) => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "false",
                    format!("ALARM {}", alarm.as_str_name()),
                ),
            };
            let body = json!({"health": health, "reason": reason});
            answer(code, JSON, body.to_string())
        }
        (&Method::GET, "/livez" | "/readyz") => answer(StatusCode::OK, TEXT, "ok\n".to_owned()),
        (&Method::GET, "/version") => {
            let version = node.version;
            let mut body = json!({
                "etcdserver": version.server_version(),
                "etcdcluster": version.cluster_version(),
            });
            if version.has_storage_version() {
                body["storage"] = version.cluster_version().into();
            }
            answer(StatusCode::OK, JSON, body.to_string())
        }
        (&Method::GET, "/metrics") => answer(
            StatusCode::OK,
            metrics::CONTENT_TYPE,
            metrics::encode(registry),
        ),
        (&Method::POST, "/debug/settle") => {
            metrics::settle().await;
            answer(StatusCode::OK, TEXT, "settled\n".to_owned())
        }
        (&Method::GET | &Method::POST, "/debug/opaque") => {
            match opaque::body(&node.store, uri.query().unwrap_or_default()) {
                Ok(body) => with_body(StatusCode::OK, "application/octet-stream", body),
                Err((code, text)) => answer(code, TEXT, text),
            }
        }
        (
            _,
            "/health" | "/livez" | "/readyz" | "/version" | "/metrics" | "/debug/settle"
            | "/debug/opaque",
        ) => answer(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "Method Not Allowed\n".to_owned(),
        ),
        _ => answer(
            StatusCode::NOT_FOUND,
            TEXT,
            "404 page not found\n".to_owned(),
        ),
    }
}

fn answer(code: StatusCode, content_type: &'static str, body: String) -> Response<ResponseBody> {
    with_body(code, content_type, ResponseBody::full(body))
}

fn with_body(
    code: StatusCode,
    content_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static(content_type),
    );
    response
}
