//! Dispatches requests by method and path.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, HeaderMap};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use kube_api::{ListOptions, Status};
use listen::{Handler, discard};
use memory::{in_flight, metrics, request_room};
use prometheus_client::registry::Registry;

use super::body::ResponseBody;
use super::content_encoding::ContentEncoding;
use super::health::{self, Check};
use super::negotiation::negotiate;
use super::resource_request::ResourceRequest;
use super::response::{complete, discovery_document, error, nosniff, not_found, text};
use super::route::{Route, decoded};
use super::tracked_body::TrackedBody;
use crate::cache::open_lists::OpenListCollector;
use crate::resource::discovery;
use crate::resource::media_type::Encoding;
use crate::resource_handler::ResourceHandler;
use crate::storage::error::too_busy;
use crate::write::body::RequestBody;
use crate::write::delete_options::DeleteOptions;
use crate::write::handler::ObjectPath;
use crate::write::namespace::delete_contents;
use crate::write::options::is_dry_run;
use crate::write::ttl_lease::EventLease;

/// The default and the maximum of a request's time limit, which includes its response.
const DEADLINE: Duration = Duration::from_secs(60);

/// The service that handles every request of the tier. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KubeService {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    handlers: Vec<ResourceHandler>,
    registry: Registry,
    event_lease: EventLease,
    /// Whether paths below `/debug` are served.
    debug: bool,
}

impl KubeService {
    /// Returns a service of these resources and the registry's metrics. Paths below `/debug` are
    /// served only if `debug` is set.
    pub fn new(handlers: Vec<ResourceHandler>, mut registry: Registry, debug: bool) -> Self {
        let caches = handlers.iter().filter_map(|handler| handler.cache.clone());
        let open = OpenListCollector::new(caches.collect());
        registry.register_collector(Box::new(open));
        Self {
            shared: Arc::new(Shared {
                handlers,
                registry,
                event_lease: EventLease::default(),
                debug,
            }),
        }
    }

    /// Returns the handler of a resource, if it is served.
    pub fn handler(&self, resource: &str) -> Option<&ResourceHandler> {
        self.shared
            .handlers
            .iter()
            .find(|handler| handler.resource.name == resource)
    }

    /// Returns the checks of a health endpoint, such as `readyz`, besides that it responds.
    fn checks(&self, endpoint: &str) -> Vec<Check> {
        match endpoint {
            "readyz" => self.readiness(),
            _ => Vec::new(),
        }
    }

    /// Returns the check with a path of its own, such as `/readyz/watch-cache/pods`.
    fn check(&self, path: &str) -> Option<Check> {
        let (endpoint, name) = path.strip_prefix('/')?.split_once('/')?;
        if !health::ENDPOINTS.contains(&endpoint) {
            return None;
        }
        let mut checks = self.checks_with_ping(endpoint);
        checks.find(|check| check.name == name)
    }

    /// Returns the checks of a health endpoint that have paths of their own.
    fn checks_with_ping(&self, endpoint: &str) -> impl Iterator<Item = Check> + use<> {
        self.checks(endpoint).into_iter().chain([Check::ping()])
    }

    /// Returns the document with all paths, except those of objects.
    fn root_paths(&self) -> String {
        let health = health::ENDPOINTS.iter().flat_map(|endpoint| {
            let checks = self.checks_with_ping(endpoint);
            let checks = checks.map(move |check| format!("/{endpoint}/{}", check.name));
            checks.chain([format!("/{endpoint}")])
        });
        discovery::root_paths(health.chain(["/metrics".to_owned()]))
    }

    /// Returns a check for each cache: whether it is ready.
    fn readiness(&self) -> Vec<Check> {
        let check = |handler: &ResourceHandler| Check {
            name: format!("watch-cache/{}", handler.resource.name),
            holds: handler.cache.as_ref().is_none_or(|cache| cache.is_ready()),
        };
        self.shared.handlers.iter().map(check).collect()
    }

    /// Serves a request. Only the bodies of writes are read; others are discarded.
    pub(crate) async fn serve<B>(&self, request: Request<B>) -> Response<TrackedBody>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let decoded = decoded(path);
        if let Some(route) = decoded.as_deref().and_then(Route::parse)
            && let Some(handler) = self.handler(route.resource.name)
        {
            return self.serve_resource(handler, route, &head, body).await;
        }
        discard(body).await;
        let response = match (&head.method, path) {
            (&Method::POST, "/debug/settle") if self.shared.debug => {
                metrics::settle().await;
                text(StatusCode::OK, "settled\n")
            }
            (&Method::GET, "/metrics") => {
                in_flight::room().await;
                complete(
                    metrics::CONTENT_TYPE,
                    metrics::encode(&self.shared.registry),
                )
            }
            // As in kube-apiserver, these paths and those of single checks take every method.
            (_, "/" | "/index.html") => complete("application/json", self.root_paths()),
            (_, "/healthz" | "/livez" | "/readyz") => {
                let query = head.uri.query().unwrap_or_default();
                let (code, body) = health::report(&path[1..], &self.checks(&path[1..]), query);
                nosniff(text(code, body))
            }
            _ => match self.check(path) {
                Some(check) => match check.holds {
                    true => text(StatusCode::OK, "ok"),
                    false => nosniff(text(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        format!("internal server error: {} failed\n", check.name),
                    )),
                },
                None => discovery_response(&head),
            },
        };
        response.map(TrackedBody::from)
    }

    /// Serves a request for a resource, and counts it until the response is sent.
    async fn serve_resource<B>(
        &self,
        handler: &ResourceHandler,
        route: Route<'_>,
        head: &Parts,
        body: B,
    ) -> Response<TrackedBody>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let query = head.uri.query().unwrap_or_default();
        // A GET of one object has fewer options than a LIST, and writes have no selectors.
        let selects = head.method == Method::GET && (route.watch || route.name.is_none());
        let options = match selects {
            true => ListOptions::parse(query),
            false => Ok(ListOptions::for_single_object(query)),
        };
        let watches = route.watch || options.as_ref().is_ok_and(|options| options.watch);
        let labels = route.labels(&head.method, watches);
        let request = handler.metrics.requests.track(labels, is_dry_run(query));
        let media_type = negotiate(accept_header(&head.headers), route.resource);
        let encoding = media_type
            .as_ref()
            .map_or(Encoding::Json, |media_type| media_type.encoding);
        let mut content_encoding = ContentEncoding::requested(&head.headers, query);
        content_encoding.pretty |= media_type
            .as_ref()
            .is_some_and(|media_type| media_type.pretty);
        content_encoding.pretty &= encoding == Encoding::Json;
        let until = request.started() + time_limit(options.as_ref().ok(), watches);
        let response = async {
            let media_type =
                media_type.ok_or_else(|| Status::not_acceptable(&Encoding::MEDIA_TYPES))?;
            let options = options?;
            if !watches {
                options.timeout()?;
            }
            let request = ResourceRequest {
                handler,
                route,
                head,
                media_type,
                content_encoding,
            };
            self.handle(&request, options, watches, body).await
        };
        let response = match tokio::time::timeout_at(until, response).await {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => error(&status, encoding, content_encoding.pretty),
            Err(_) => error(&Status::timeout(), encoding, content_encoding.pretty),
        };
        TrackedBody::of_request(request, response, until)
    }

    async fn handle<B>(
        &self,
        request: &ResourceRequest<'_>,
        options: ListOptions,
        watches: bool,
        body: B,
    ) -> Result<Response<ResponseBody>, Status>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let route = &request.route;
        let mut body = pin!(body);
        if request.head.method == Method::GET {
            discard(body.as_mut()).await;
        }
        match (&request.head.method, route.name) {
            _ if !route.is_served() => Err(Status::path_not_found()),
            (&Method::GET, _) if !route.is_readable() => Err(Status::method_not_allowed()),
            (&Method::GET, _) if watches => request.watch(options).await,
            (&Method::GET, Some(name)) => {
                let _turn = request_room::turn().await;
                request.get(name, &options).await
            }
            (&Method::GET, None) => request.list(&options).await,
            // Paths below `/watch/` can only be read.
            _ if route.watch => Err(Status::method_not_allowed()),
            (&Method::POST | &Method::PUT | &Method::PATCH | &Method::DELETE, _) => {
                self.write(request, body).await
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    async fn write<B>(
        &self,
        request: &ResourceRequest<'_>,
        body: B,
    ) -> Result<Response<ResponseBody>, Status>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let ResourceRequest {
            handler,
            route,
            head,
            ..
        } = request;
        let path = ObjectPath {
            namespace: route.namespace,
            name: route.name,
            subresource: route.subresource,
        };
        let responder = request.responder()?;
        let event_lease = &self.shared.event_lease;
        let request_body = RequestBody::read(&head.headers, body).await?;
        let _turn = request_room::turn().await;
        // Before the write: one that has been made is not to wait for its response.
        in_flight::room_for(request_body.bytes.len()).await;
        if let (&Method::DELETE, "namespaces", Some(name), None) = (
            &head.method,
            route.resource.name,
            route.name,
            route.subresource,
        ) {
            let options = DeleteOptions::read(request.query(), &request_body)?;
            let all = &self.shared.handlers;
            delete_contents(handler, all, event_lease, name, &options).await?;
        }
        let written = handler
            .write(
                event_lease,
                path,
                &head.method,
                request.query(),
                &request_body,
            )
            .await?;
        responder.written(written).await
    }
}

/// Returns the response to a request for a discovery document, or for nothing that is served.
fn discovery_response(head: &Parts) -> Response<ResponseBody> {
    let path = head.uri.path();
    match discovery::document(path, accept_header(&head.headers)) {
        Some(document) if head.method == Method::GET => discovery_document(document, &head.headers),
        Some(_) => error(&Status::method_not_allowed(), Encoding::Json, false),
        None if discovery::is_below_a_version(path) => {
            error(&Status::path_not_found(), Encoding::Json, false)
        }
        None => not_found(),
    }
}

/// Returns the time limit of a request: its `timeout`, at most [`DEADLINE`]. A watch ignores
/// `timeout`, because it has `timeoutSeconds`. The caller refuses options that cannot be parsed.
fn time_limit(options: Option<&ListOptions>, watches: bool) -> Duration {
    let asked = options
        .filter(|_| !watches)
        .and_then(|options| options.timeout().ok()?);
    asked.map_or(DEADLINE, |time| time.min(DEADLINE))
}

/// Returns the value of the `Accept` header; empty without one.
fn accept_header(headers: &HeaderMap) -> &str {
    let value = headers.get(ACCEPT);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

impl Handler for KubeService {
    type Data = wire::frame::Frame;
    type Body = TrackedBody;

    const TIME_LIMITS: bool = true;

    fn refuse(&self, request: &Request<Incoming>) -> Option<Response<TrackedBody>> {
        let path = request.uri().path();
        let is_served = path.starts_with("/api/") || path.starts_with("/apis/");
        is_served.then(|| error(&too_busy(), Encoding::Json, false).map(TrackedBody::from))
    }

    async fn handle(self, request: Request<Incoming>) -> Response<TrackedBody> {
        self.serve(request).await
    }
}
