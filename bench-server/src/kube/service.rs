//! Requests in, answers out: which handler a method and URL belong to.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_ENCODING, HeaderMap, VARY, WARNING};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use kube_api::{ListOptions, Status};
use prometheus_client::registry::Registry;

use super::body::{KubeBody, ListBody};
use super::discovery;
use super::dress::{Dress, DressedList, accepts_gzip};
use super::filter::{Filter, NAME};
use super::form::{Form, Include};
use super::health::{self, Check};
use super::list::Lister;
use super::media::{Encoding, Media, Shape};
use super::opaque::OpaqueBody;
use super::reply::Reply;
use super::respond::{described, failure, nothing, respond, text, unsniffed, whole};
use super::route::{Route, decoded};
use super::write::answer::{Place, is_dry_run};
use super::write::body::Sent;
use super::write::event_lease::EventLease;
use crate::listen::Handler;
use crate::metrics;

/// How long a request may take until its answer is over: the default, and the most that `timeout` may ask for.
const DEADLINE: Duration = Duration::from_secs(60);

/// The tier as a connection sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KubeService {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    listers: Vec<Lister>,
    registry: Registry,
    events: EventLease,
}

/// What a request for a resource is made of, for its handler.
#[derive(Debug)]
pub(crate) struct Call<'r> {
    /// What serves the resource.
    pub(crate) lister: &'r Lister,
    /// What the URL names.
    pub(crate) route: Route<'r>,
    /// Method, URL and headers.
    pub(crate) head: &'r Parts,
    /// How the answer is encoded.
    pub(crate) media: Media,
}

impl KubeService {
    /// Serves these resources and this registry.
    pub fn new(listers: Vec<Lister>, registry: Registry) -> Self {
        Self {
            shared: Arc::new(Shared {
                listers,
                registry,
                events: EventLease::default(),
            }),
        }
    }

    /// The resource's lists, when it is served.
    pub fn lister(&self, resource: &str) -> Option<&Lister> {
        self.shared
            .listers
            .iter()
            .find(|lister| lister.resource.name == resource)
    }

    /// Whether each cache is filled.
    fn readiness(&self) -> Vec<Check> {
        let check = |lister: &Lister| Check {
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
        let response = match (&head.method, path) {
            (&Method::POST, "/debug/settle") => {
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
            (&Method::GET, "/debug/opaque") => self.opaque(head.uri.query().unwrap_or_default()),
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

    /// The yardstick of lists, over the pods or another resource's cache.
    fn opaque(&self, query: &str) -> Response<KubeBody> {
        let (mut bytes, mut resource) = (None, "pods".to_owned());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "bytes" => bytes = value.parse::<u64>().ok(),
                "resource" => resource = value.into_owned(),
                _ => bytes = None,
            }
        }
        let Some(bytes) = bytes else {
            return text(
                StatusCode::BAD_REQUEST,
                "bytes=N is needed, and nothing but resource=NAME beside it\n",
            );
        };
        let cache = self
            .lister(&resource)
            .and_then(|lister| lister.cache.as_ref());
        match cache.and_then(|cache| OpaqueBody::new(cache.view().tree, bytes)) {
            Some(body) => respond(
                StatusCode::OK,
                "application/octet-stream",
                KubeBody::Opaque(Box::new(body)),
            ),
            None => text(StatusCode::CONFLICT, "no object is cached to send\n"),
        }
    }

    /// Answers a request for a resource, and counts it until its answer is over.
    async fn resource<B>(
        &self,
        lister: &Lister,
        route: Route<'_>,
        head: &Parts,
        body: B,
    ) -> Response<Reply>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let query = head.uri.query().unwrap_or_default();
        let options = ListOptions::parse(query);
        let watches = route.watch
            || route.name.is_none() && options.as_ref().is_ok_and(|options| options.watch);
        let asked = route.asked(&head.method, watches);
        let dry_run = query.contains("dryRun=All");
        let request = lister.figures.requests.begin(asked, dry_run);
        let media = Media::accepted(accept(&head.headers), route.resource);
        let encoding = media
            .as_ref()
            .map_or(Encoding::Json, |media| media.encoding);
        let pretty = Dress::wanted(&head.headers, query).pretty
            || media.as_ref().is_some_and(|media| media.pretty);
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
            };
            self.call(&call, options, watches, body).await
        };
        let response = match tokio::time::timeout_at(until, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => failure(&status, encoding, pretty),
            Err(_) => failure(&Status::timeout(), encoding, pretty),
        };
        Reply::to(request, response, until)
    }

    async fn call<B>(
        &self,
        call: &Call<'_>,
        mut options: ListOptions,
        watches: bool,
        body: B,
    ) -> Result<Response<KubeBody>, Status>
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let Call {
            lister,
            route,
            head,
            ..
        } = call;
        if let (true, Some(name)) = (watches, route.name) {
            names_no_other(lister, &options, name)?;
            let comma = if options.field_selector.is_empty() {
                ""
            } else {
                ","
            };
            options.field_selector += &format!("{comma}metadata.name={name}");
        }
        match (&head.method, route.name) {
            _ if !route.is_served() => Err(Status::nothing_served()),
            (&Method::POST | &Method::PUT | &Method::PATCH | &Method::DELETE, _) => {
                self.write(call, body).await
            }
            (&Method::GET, _) if watches => call.watch(&options).await,
            (&Method::GET, Some(name)) => call.get(name, &options).await,
            (&Method::GET, None) => call.list(&options).await,
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
            media,
        } = call;
        let place = Place {
            namespace: route.namespace,
            name: route.name,
            subresource: route.subresource,
        };
        let query = head.uri.query().unwrap_or_default();
        let events = &self.shared.events;
        let sent = Sent::read(&head.headers, body).await?;
        if let (&Method::DELETE, "namespaces", Some(name), None) = (
            &head.method,
            route.resource.name,
            route.name,
            route.subresource,
        ) && !is_dry_run(query, &sent)?
        {
            // Rehearsed first: where the namespace itself may not be deleted, nothing in it may be.
            let rehearsal = format!("{query}&dryRun=All");
            lister
                .write(
                    events,
                    place,
                    &head.method,
                    &rehearsal,
                    &sent,
                    media.encoding,
                )
                .await?;
            let within = |lister: &&Lister| lister.resource.namespaced;
            for lister in self.shared.listers.iter().filter(within) {
                lister.empty(name, events).await?;
            }
        }
        let answer = lister
            .write(events, place, &head.method, query, &sent, media.encoding)
            .await?;
        let mut response = respond(answer.code, media.encoding.media_type(), answer.body);
        for warning in answer.warnings {
            response.headers_mut().append(WARNING, warning);
        }
        Ok(response)
    }
}

impl Call<'_> {
    /// The form of the answer's objects.
    ///
    /// # Errors
    /// 400 for an `includeObject` that is none of the three.
    pub(crate) fn form(&self) -> Result<Form, Status> {
        let query = self.head.uri.query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let include = match pairs.find(|(name, _)| name == "includeObject") {
            None => Include::default(),
            Some((_, value)) => match &*value {
                "" | "Metadata" => Include::Metadata,
                "None" => Include::None,
                "Object" => Include::Object,
                _ if self.media.shape != Shape::Table => Include::default(),
                other => {
                    return Err(Status::bad_request(format!(
                        "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                         must be 'Metadata', 'Object', 'None', or empty"
                    )));
                }
            },
        };
        Ok(Form::new(self.media, include))
    }

    async fn list(&self, options: &ListOptions) -> Result<Response<KubeBody>, Status> {
        let form = self.form()?;
        let listing = self.lister.list(self.route.namespace, options).await?;
        let body = ListBody::new(self.lister.resource, form, listing);
        let dress = self.dress();
        if dress == Dress::default() {
            return Ok(self.ok(KubeBody::List(Box::new(body)), false));
        }
        let body = DressedList::new(body, dress);
        let compressed = body.is_compressed();
        Ok(self.ok(KubeBody::Dressed(Box::new(body)), compressed))
    }

    async fn get(&self, name: &str, options: &ListOptions) -> Result<Response<KubeBody>, Status> {
        let object = self.lister.get(self.route.namespace, name, options).await?;
        let form = self.form()?;
        let mut out = Vec::new();
        form.put_object(self.lister.resource, &object, true, &mut out)
            .map_err(|error| Status::internal(error.to_string()))?;
        if self.media.encoding == Encoding::Json {
            out.push(b'\n');
        }
        let (body, compressed) = self.dress().whole(out);
        Ok(self.ok(KubeBody::full(body), compressed))
    }

    async fn watch(&self, options: &ListOptions) -> Result<Response<KubeBody>, Status> {
        let gzip = accepts_gzip(&self.head.headers);
        let body = self
            .lister
            .watch(self.route.namespace, options, self.form()?, gzip)
            .await?;
        let (compressed, media_type) = (body.is_compressed(), body.media_type());
        let response = respond(StatusCode::OK, media_type, KubeBody::Watch(Box::new(body)));
        Ok(encoded(response, compressed))
    }

    fn dress(&self) -> Dress {
        let query = self.head.uri.query().unwrap_or_default();
        let mut dress = Dress::wanted(&self.head.headers, query);
        dress.pretty |= self.media.pretty;
        dress.pretty &= self.media.encoding == Encoding::Json;
        dress
    }

    fn ok(&self, body: KubeBody, compressed: bool) -> Response<KubeBody> {
        let response = respond(StatusCode::OK, self.media.encoding.media_type(), body);
        encoded(response, compressed)
    }
}

/// Refuses a field selector that demands another object than the URL names.
fn names_no_other(lister: &Lister, options: &ListOptions, name: &str) -> Result<(), Status> {
    let filter = Filter::parse(lister.resource, options, lister.gates)?;
    match filter.demands_field(NAME) {
        Some(other) if other != name => Err(Status::bad_request(
            "fieldSelector metadata.name doesn't match requested name",
        )),
        _ => Ok(()),
    }
}

/// Says so where the body is compressed.
fn encoded(mut response: Response<KubeBody>, compressed: bool) -> Response<KubeBody> {
    if compressed {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// The `Accept` header; empty when there is none.
fn accept(headers: &HeaderMap) -> &str {
    let value = headers.get(ACCEPT);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

impl Handler for KubeService {
    type Data = crate::wire::frame::Frame;
    type Body = Reply;

    const TIME_LIMITS: bool = true;

    async fn handle(self, request: Request<Incoming>) -> Response<Reply> {
        self.answer(request).await
    }
}
