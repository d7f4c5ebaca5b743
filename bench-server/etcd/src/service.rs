//! Dispatches the requests of the etcd tier: KV to [`kv`], Watch to [`watch`], the other services
//! to tonic's routes, and plain HTTP to [`super::http`].

use std::pin::pin;
use std::sync::Arc;

use etcd_api::error::Refusal;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use listen::{Handler, discard};
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::Service;
use wire::first_byte_metric::FirstByteMetric;
use wire::grpc::{self, Encoding, error_response};
use wire::message_gate::MessageGate;

use super::call_checks::{self, UntilDeadline};
use super::frames::{Frame, ResponseBody};
use super::overload::too_many_requests;
use super::{Node, http as plain_http, kv, watch};

/// The name of the service that [`kv`] implements; [`kv::Method`] has its methods.
const KV: &str = "etcdserverpb.KV";

/// The name of the service that [`watch`] implements, with one method.
const WATCH: &str = "etcdserverpb.Watch";

/// The gRPC services of tonic's routes, with the methods of etcd 3.7.3.
const ROUTED: &[(&str, &[&str])] = &[
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
    ("grpc.health.v1.Health", &["Check", "Watch", "List"]),
];

/// The etcd tier's handler; cheap to clone.
#[derive(Clone)]
pub struct EtcdService {
    shared: Arc<Shared>,
    /// Whether gRPC is served.
    grpc: bool,
    /// Whether paths below `/debug` are served.
    debug: bool,
}

/// The state that requests share.
struct Shared {
    node: Arc<Node>,
    routes: Routes,
    registry: Arc<Registry>,
    first_writes: FirstByteMetric,
}

impl EtcdService {
    /// Returns a service of `node`; `routes` has every service except KV and Watch.
    pub fn new(node: Arc<Node>, routes: Routes, mut registry: Registry) -> Self {
        registry.register_collector(Box::new(super::metrics::StoreCollector::new(node.clone())));
        registry.register_collector(node.admission.collector());
        Self {
            shared: Arc::new(Shared {
                node,
                routes,
                first_writes: FirstByteMetric::register(&mut registry),
                registry: Arc::new(registry),
            }),
            grpc: true,
            debug: false,
        }
    }

    /// Returns the service with paths below `/debug`.
    pub fn with_debug_endpoints(self) -> Self {
        Self {
            debug: true,
            ..self
        }
    }

    /// Returns the service without gRPC, for `--listen-metrics-urls`.
    pub fn without_grpc(&self) -> Self {
        Self {
            grpc: false,
            ..self.clone()
        }
    }
}

impl Handler for EtcdService {
    type Data = Frame;
    type Body = ResponseBody;

    /// gRPC does not use `date`, and etcd's server does not send it.
    const DATE_HEADER: bool = false;

    const HEADER_LIST_BYTES: u32 = 16 * 1024 * 1024;

    fn refuse(&self, request: &Request<Incoming>) -> Option<Response<ResponseBody>> {
        let is_health = request.uri().path().starts_with("/grpc.health.v1.Health/");
        (self.grpc && is_grpc(request) && !is_health).then(|| error_response(&too_many_requests()))
    }

    fn handle(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send + 'static {
        let Self {
            shared,
            grpc,
            debug,
        } = self;
        let began = std::time::Instant::now();
        async move {
            let Shared {
                node,
                routes,
                registry,
                first_writes,
            } = &*shared;
            if !(grpc && is_grpc(&request)) {
                let (head, body) = request.into_parts();
                discard(body).await;
                return plain_http::serve(node, registry, debug, head.method, head.uri).await;
            }
            let deadline = match call_checks::deadline(&request) {
                Ok(deadline) => deadline,
                Err(rejection) => return *rejection,
            };
            // Futures of calls are large, and each move of one costs a copy.
            let call = pin!(async {
                // The order of the checks is grpc-go's.
                let call = dispatch(node, &request)
                    .and_then(|call| Ok((call, Encoding::of(request.headers())?)));
                match call {
                    Ok((Call::Kv(method), encoding)) => {
                        let body = request.into_body();
                        let mut response = kv::serve(node, method, encoding, deadline, body).await;
                        let timed = || first_writes.start_timer(began);
                        response.body_mut().time_first_write(timed);
                        response
                    }
                    Ok((Call::Watch, encoding)) => {
                        watch::serve(node.clone(), encoding, deadline, request.into_body())
                    }
                    Ok((Call::Routed, _)) => {
                        let limit_bytes = node.max_message_bytes();
                        let request = request.map(|body| MessageGate::stream(body, limit_bytes));
                        Box::pin(routed(routes.clone(), request, deadline)).await
                    }
                    Err(status) => error_response(&status),
                }
            });
            match deadline {
                Some(deadline) => call_checks::within(deadline, call).await,
                None => call.await,
            }
        }
    }
}

/// The handler of a call.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Kv(kv::Method),
    Watch,
    Routed,
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2 && call_checks::claims_grpc(request.headers())
}

/// Returns the handler of a call. Unknown services and methods get grpc-go's errors.
fn dispatch<B>(node: &Node, request: &Request<B>) -> Result<Call, Status> {
    if let Some(version) = request.headers().get("client-api-version")
        && std::str::from_utf8(version.as_bytes()).is_err()
    {
        return Err(Refusal::InvalidClientApiVersion.into());
    }
    // As in grpc-go, a query is part of the method's name, which is then unknown.
    let path = request
        .uri()
        .path_and_query()
        .map_or("", |path| path.as_str());
    let (service, method) = path
        .strip_prefix('/')
        .and_then(|p| p.rsplit_once('/'))
        .ok_or_else(|| Status::unimplemented(format!("malformed method name: {path:?}")))?;
    let unknown =
        || Status::unimplemented(format!("unknown method {method} for service {service}"));
    if service == KV {
        return kv::Method::from_name(method)
            .filter(|m| *m != kv::Method::RangeStream || node.version.has_range_stream())
            .map(Call::Kv)
            .ok_or_else(unknown);
    }
    if service == WATCH {
        return match method {
            "Watch" => Ok(Call::Watch),
            _ => Err(unknown()),
        };
    }
    match ROUTED.iter().find(|(name, _)| *name == service) {
        None => Err(Status::unimplemented(format!("unknown service {service}"))),
        Some((_, methods)) if methods.contains(&method) => Ok(Call::Routed),
        Some(_) => Err(unknown()),
    }
}

async fn routed(
    mut routes: Routes,
    request: Request<MessageGate<Incoming>>,
    deadline: Option<Instant>,
) -> Response<ResponseBody> {
    let response = match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    // A status in the headers is an error.
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() == Code::OutOfRange => {
            error_response(&grpc::into_grpc_go_status(status))
        }
        _ => response.map(|body| {
            ResponseBody::tonic(match deadline {
                Some(deadline) => Body::new(UntilDeadline::new(body, deadline)),
                None => body,
            })
        }),
    }
}
