//! The plain HTTP paths on etcd's client port: health, version, metrics.

use http::{Method, Response, StatusCode, Uri, header};
use memory::{in_flight, metrics};
use prometheus_client::registry::Registry;

use super::frames::ResponseBody;
use super::{Node, health_http};

const TEXT: &str = "text/plain; charset=utf-8";

/// Serves one request that is not gRPC. Paths below `/debug` are served only if `debug` is set.
pub async fn serve(
    node: &Node,
    registry: &Registry,
    debug: bool,
    method: Method,
    uri: Uri,
) -> Response<ResponseBody> {
    const JSON: &str = "application/json";
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    if let Some((code, body)) = health_http::checks(&node.store, path, query) {
        return match method {
            Method::GET => text_response(code, TEXT, body),
            _ => method_not_allowed("GET"),
        };
    }
    match (&method, path) {
        (&Method::GET, "/health") => {
            let (code, body) = health_http::health(&node.store, query);
            // etcd lets Go's library guess the type of this JSON.
            text_response(code, TEXT, body)
        }
        (&Method::GET, "/version") => {
            let version = node.version;
            let (server, cluster) = (version.server_version(), version.cluster_version());
            let storage = match version.has_storage_version() {
                true => format!(r#","storage":"{cluster}""#),
                false => String::new(),
            };
            let body = format!(r#"{{"etcdserver":"{server}","etcdcluster":"{cluster}"{storage}}}"#);
            text_response(StatusCode::OK, JSON, body)
        }
        (_, "/metrics") => {
            in_flight::room().await;
            text_response(
                StatusCode::OK,
                metrics::CONTENT_TYPE,
                metrics::encode(registry),
            )
        }
        (&Method::POST, "/debug/settle") if debug => {
            metrics::settle().await;
            text_response(StatusCode::OK, TEXT, "settled\n".to_owned())
        }
        (_, "/health" | "/version") => method_not_allowed("GET"),
        (_, "/debug/settle") if debug => method_not_allowed("POST"),
        _ => text_response(
            StatusCode::NOT_FOUND,
            TEXT,
            "404 page not found\n".to_owned(),
        ),
    }
}

fn method_not_allowed(allowed: &'static str) -> Response<ResponseBody> {
    let body = "Method Not Allowed\n".to_owned();
    let mut response = text_response(StatusCode::METHOD_NOT_ALLOWED, TEXT, body);
    let allowed = http::HeaderValue::from_static(allowed);
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

fn text_response(
    code: StatusCode,
    content_type: &'static str,
    body: String,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static(content_type),
    );
    response
}
