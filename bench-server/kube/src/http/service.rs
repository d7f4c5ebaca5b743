//! Requests in, answers out: which handler a method and URL belong to.

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
use memory::metrics;
use prometheus_client::registry::Registry;

use super::body::KubeBody;
use super::content_encoding::Dress;
use super::health::{self, Check};
use super::negotiation::accepted;
use super::resource_request::Call;
use super::response::{described, failure, nothing, text, unsniffed, whole};
use super::route::{Route, decoded};
use super::tracked_body::Reply;
use crate::cache::open_lists::OpenListCollector;
use crate::resource::discovery;
use crate::resource::media_type::Encoding;
use crate::resource_handler::ResourceHandler;
use crate::storage::error::too_busy;
use crate::write::body::Sent;
use crate::write::delete_options::DeleteOptions;
use crate::write::handler::Place;
use crate::write::ttl_lease::EventLease;

/// How long a request may take until its answer is over: the default, and the most that `timeout` may ask for.
const DEADLINE: Duration = Duration::from_secs(60);

/// The tier as a connection sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KubeService {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    listers: Vec<ResourceHandler>,
    registry: Registry,
    events: EventLease,
    /// Whether what lies below `/debug` is served.
    debug: bool,
}

impl KubeService {
    /// Serves these resources and this registry; what lies below `/debug` only with `debug`.
    pub fn new(listers: Vec<ResourceHandler>, mut registry: Registry, debug: bool) -> Self {
        let caches = listers.iter().filter_map(|lister| lister.cache.clone());
        let open = OpenListCollector::new(caches.collect());
        registry.register_collector(Box::new(open));
        Self {
            shared: Arc::new(Shared {
                listers,
                registry,
                events: EventLease::default(),
                debug,
            }),
        }
    }

    /// The resource's lists, when it is served.
    pub fn lister(&self, resource: &str) -> Option<&ResourceHandler> {
        self.shared
            .listers
            .iter()
            .find(|lister| lister.resource.name == resource)
    }

    /// Whether each cache is filled.
    fn readiness(&self) -> Vec<Check> {
        let check = |lister: &ResourceHandler| Check {
            name: format!("watch-cache/{}", lister.resource.name),
            holds: lister.cache.as_ref().is_none_or(|cache| cache.is_ready()),
        };
        self.shared.listers.iter().map(check).collect()
    }

    /// Answers any request; only a write's body is read.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Reply>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let decoded = decoded(path);
        if let Some(route) = decoded.as_deref().and_then(Route::parse)
            && let Some(lister) = self.lister(route.resource.name)
        {
            return self.resource(lister, route, &head, body).await;
        }
        discard(body).await;
        let response = match (&head.method, path) {
            (&Method::POST, "/debug/settle") if self.shared.debug => {
                metrics::settle().await;
                text(StatusCode::OK, "settled\n")
            }
            (&Method::GET, "/healthz" | "/livez" | "/readyz") => {
                let ready = path == "/readyz";
                let checks = if ready { self.readiness() } else { Vec::new() };
                let query = head.uri.query().unwrap_or_default();
                let (code, body) = health::report(&path[1..], &checks, query);
                unsniffed(text(code, body))
            }
            (&Method::GET, "/healthz/ping" | "/livez/ping" | "/readyz/ping") => {
                text(StatusCode::OK, "ok")
            }
            (&Method::GET, "/metrics") => whole(
                metrics::CONTENT_TYPE,
                metrics::encode(&self.shared.registry),
            ),
            _ => match discovery::answer(path, accept(&head.headers)) {
                Some(document) if head.method == Method::GET => described(document),
                Some(_) => failure(&Status::method_not_allowed(), Encoding::Json, false),
                None if discovery::is_below_a_version(path) => {
                    failure(&Status::nothing_served(), Encoding::Json, false)
                }
                None => nothing(),
            },
        };
        response.map(Reply::from)
    }

    /// Answers a request for a resource, and counts it until its answer is over.
    async fn resource<B>(
        &self,
        lister: &ResourceHandler,
        route: Route<'_>,
        head: &Parts,
        body: B,
    ) -> Response<Reply>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let query = head.uri.query().unwrap_or_default();
        // One object is asked for with fewer options than many, and a write is not selected by any.
        let selects = head.method == Method::GET && (route.watch || route.name.is_none());
        let options = match selects {
            true => ListOptions::parse(query),
            false => Ok(ListOptions::of_one(query)),
        };
        let watches = route.watch || options.as_ref().is_ok_and(|options| options.watch);
        let asked = route.asked(&head.method, watches);
        let dry_run = query.contains("dryRun=All");
        let request = lister.figures.requests.begin(asked, dry_run);
        let media = accepted(accept(&head.headers), route.resource);
        let encoding = media
            .as_ref()
            .map_or(Encoding::Json, |media| media.encoding);
        let mut dress = Dress::wanted(&head.headers, query);
        dress.pretty |= media.as_ref().is_some_and(|media| media.pretty);
        dress.pretty &= encoding == Encoding::Json;
        let media = media.ok_or_else(|| Status::not_acceptable(&Encoding::MEDIA_TYPES));
        // Watches end by limits of their own.
        let time = match &options {
            Ok(options) if !watches => options.timeout(),
            _ => Ok(None),
        };
        let until = request.began()
            + time
                .clone()
                .ok()
                .flatten()
                .unwrap_or(DEADLINE)
                .min(DEADLINE);
        let answer = async {
            let (media, options, _) = (media?, options?, time?);
            let call = Call {
                lister,
                route,
                head,
                media,
                dress,
            };
            self.call(&call, options, watches, body).await
        };
        let response = match tokio::time::timeout_at(until, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => failure(&status, encoding, dress.pretty),
            Err(_) => failure(&Status::timeout(), encoding, dress.pretty),
        };
        Reply::to(request, response, until)
    }

    async fn call<B>(
        &self,
        call: &Call<'_>,
        options: ListOptions,
        watches: bool,
        body: B,
    ) -> Result<Response<KubeBody>, Status>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let route = &call.route;
        let mut body = pin!(body);
        if call.head.method == Method::GET {
            discard(body.as_mut()).await;
        }
        match (&call.head.method, route.name) {
            _ if !route.is_served() => Err(Status::nothing_served()),
            (&Method::GET, _) if !route.is_readable() => Err(Status::method_not_allowed()),
            (&Method::GET, _) if watches => call.watch(options).await,
            (&Method::GET, Some(name)) => call.get(name, &options).await,
            (&Method::GET, None) => call.list(&options).await,
            // The path of the old form is read and nothing else.
            _ if route.watch => Err(Status::method_not_allowed()),
            (&Method::POST | &Method::PUT | &Method::PATCH | &Method::DELETE, _) => {
                self.write(call, body).await
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    async fn write<B>(&self, call: &Call<'_>, body: B) -> Result<Response<KubeBody>, Status>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let Call {
            lister,
            route,
            head,
            ..
        } = call;
        let place = Place {
            namespace: route.namespace,
            name: route.name,
            subresource: route.subresource,
        };
        let responder = call.responder()?;
        let events = &self.shared.events;
        let sent = Sent::read(&head.headers, body).await?;
        if let (&Method::DELETE, "namespaces", Some(name), None) = (
            &head.method,
            route.resource.name,
            route.name,
            route.subresource,
        ) {
            let options = DeleteOptions::read(call.query(), &sent)?;
            if !options.dry_run() {
                // Where the namespace itself may not be deleted, nothing in it may be.
                lister.rehearse_deletion(events, name, &options).await?;
                let within = |lister: &&ResourceHandler| lister.resource.namespaced;
                for lister in self.shared.listers.iter().filter(within) {
                    lister.empty(name, events).await?;
                }
            }
        }
        let answer = lister
            .write(events, place, &head.method, call.query(), &sent)
            .await?;
        responder.written(answer).await
    }
}

/// The `Accept` header; empty when there is none.
fn accept(headers: &HeaderMap) -> &str {
    let value = headers.get(ACCEPT);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

impl Handler for KubeService {
    type Data = wire::frame::Frame;
    type Body = Reply;

    const TIME_LIMITS: bool = true;

    fn refuse(&self, request: &Request<Incoming>) -> Option<Response<Reply>> {
        let path = request.uri().path();
        let is_served = path.starts_with("/api/") || path.starts_with("/apis/");
        is_served.then(|| failure(&too_busy(), Encoding::Json, false).map(Reply::from))
    }

    async fn handle(self, request: Request<Incoming>) -> Response<Reply> {
        self.answer(request).await
    }
}
