//! What answers a connection of the etcd tier: KV by our own path, the other services by tonic's
//! routes, and plain HTTP beside them.

use std::sync::Arc;

use http::{Request, Response, Version, header};
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tonic::Status;
use tonic::service::Routes;
use tower::Service;

use super::{Node, http as plain_http, kv};
use crate::listen::Handler;
use crate::wire::body::ResponseBody;
use crate::wire::frame::Frame;
use crate::wire::grpc::error_response;

/// gRPC services behind tonic's routes, with their methods, as etcd 3.7.1 has them.
const METHODS: &[(&str, &[&str])] = &[
    (
        "etcdserverpb.KV",
        &[
            "Range",
            "RangeStream",
            "Put",
            "DeleteRange",
            "Txn",
            "Compact",
        ],
    ),
    ("etcdserverpb.Watch", &["Watch"]),
    (
        "etcdserverpb.Lease",
        &[
            "LeaseGrant",
            "LeaseRevoke",
            "LeaseKeepAlive",
            "LeaseTimeToLive",
            "LeaseLeases",
        ],
    ),
    (
        "etcdserverpb.Cluster",
        &[
            "MemberAdd",
            "MemberRemove",
            "MemberUpdate",
            "MemberList",
            "MemberPromote",
        ],
    ),
    (
        "etcdserverpb.Maintenance",
        &[
            "Alarm",
            "Status",
            "Defragment",
            "Hash",
            "HashKV",
            "Snapshot",
            "MoveLeader",
            "Downgrade",
        ],
    ),
    (
        "etcdserverpb.Auth",
        &[
            "AuthEnable",
            "AuthDisable",
            "AuthStatus",
            "Authenticate",
            "UserAdd",
            "UserGet",
            "UserList",
            "UserDelete",
            "UserChangePassword",
            "UserGrantRole",
            "UserRevokeRole",
            "RoleAdd",
            "RoleGet",
            "RoleList",
            "RoleDelete",
            "RoleGrantPermission",
            "RoleRevokePermission",
        ],
    ),
    ("grpc.health.v1.Health", &["Check", "Watch"]),
];

/// The etcd tier's handler; cheap to clone.
#[derive(Clone)]
pub struct EtcdService {
    node: Arc<Node>,
    routes: Routes,
    registry: Arc<Registry>,
    /// Whether gRPC is answered at all.
    grpc: bool,
}

impl EtcdService {
    /// Serves `node`; `routes` hold every service but KV.
    pub fn new(node: Arc<Node>, routes: Routes, mut registry: Registry) -> Self {
        registry.register_collector(Box::new(super::figures::StoreCollector::new(node.clone())));
        Self {
            node,
            routes,
            registry: Arc::new(registry),
            grpc: true,
        }
    }

    /// The same without gRPC, for `--listen-metrics-urls`.
    pub fn plain_only(&self) -> Self {
        Self {
            grpc: false,
            ..self.clone()
        }
    }
}

impl Handler for EtcdService {
    type Data = Frame;
    type Body = ResponseBody;

    fn handle(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send + 'static {
        let Self {
            node,
            routes,
            registry,
            grpc,
        } = self;
        async move {
            if !(grpc && is_grpc(&request)) {
                let (head, _) = request.into_parts();
                return plain_http::serve(node, registry, head.method, head.uri).await;
            }
            match dispatch(&node, &request) {
                Ok(Call::Kv(method)) => kv::serve(node, method, request.into_body()).await,
                Ok(Call::Routed) => routed(routes, request).await,
                Err(status) => error_response(&status),
            }
        }
    }
}

/// Who answers a call.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Kv(kv::Method),
    Routed,
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2
        && request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"))
}

/// Finds who answers, with grpc-go's texts for calls that nobody does.
fn dispatch<B>(node: &Node, request: &Request<B>) -> Result<Call, Status> {
    if let Some(version) = request.headers().get("client-api-version")
        && std::str::from_utf8(version.as_bytes()).is_err()
    {
        return Err(etcd_api::error::Refusal::InvalidClientApiVersion.into());
    }
    let path = request.uri().path();
    let (service, method) = path
        .strip_prefix('/')
        .and_then(|p| p.rsplit_once('/'))
        .ok_or_else(|| Status::unimplemented(format!("malformed method name: {path:?}")))?;
    let Some((_, methods)) = METHODS.iter().find(|(name, _)| *name == service) else {
        return Err(Status::unimplemented(format!("unknown service {service}")));
    };
    let hidden = method == "RangeStream" && !node.version.has_range_stream();
    if hidden || !methods.contains(&method) {
        return Err(Status::unimplemented(format!(
            "unknown method {method} for service {service}"
        )));
    }
    if service == "etcdserverpb.KV" {
        return kv::Method::from_name(method)
            .map(Call::Kv)
            .ok_or_else(|| Status::internal(format!("KV method {method} has no handler")));
    }
    Ok(Call::Routed)
}

async fn routed(mut routes: Routes, request: Request<Incoming>) -> Response<ResponseBody> {
    match routes.call(request).await {
        Ok(response) => response.map(ResponseBody::tonic),
        Err(never) => match never {},
    }
}
