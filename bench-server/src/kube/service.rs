//! URLs, methods and media types: requests in, lists and Statuses out.

use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY,
    WARNING,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use kube_api::{ListOptions, Status};
use prometheus_client::registry::Registry;

use super::body::{KubeBody, ListBody};
use super::discovery;
use super::list::Lister;
use super::media::Encoding;
use super::watch::body::WatchBody;
use super::write::answer::Place;
use super::write::body::Sent;
use super::write::event_lease::EventLease;
use crate::listen::Handler;
use crate::metrics;

/// How long a request may take until its answer begins.
const DEADLINE: Duration = Duration::from_secs(60);

const TEXT: &str = "text/plain; charset=utf-8";

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

/// What a path below `/api/v1` names.
#[derive(Debug, PartialEq, Eq)]
struct Target<'p> {
    namespace: &'p str,
    resource: &'p str,
    name: Option<&'p str>,
    subresource: Option<&'p str>,
    /// Below `/api/v1/watch/`, the older way to ask for a watch.
    watch: bool,
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

    /// Whether every cache is filled.
    fn is_ready(&self) -> bool {
        self.shared
            .listers
            .iter()
            .all(|lister| lister.cache.as_ref().is_none_or(|cache| cache.is_ready()))
    }

    /// Answers any request; only a write's body is read.
    pub(crate) async fn respond<B>(&self, request: Request<B>) -> Response<KubeBody>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let path = head.uri.path().to_owned();
        match target(&path).and_then(|target| Some((self.lister(target.resource)?, target))) {
            Some((lister, target)) if writes.contains(&head.method) => {
                self.write(lister, &target, &head, body).await
            }
            _ => self.answer(&Request::from_parts(head, ())).await,
        }
    }

    async fn write<B>(
        &self,
        lister: &Lister,
        target: &Target<'_>,
        head: &http::request::Parts,
        body: B,
    ) -> Response<KubeBody>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let accept = head.headers.get(ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        let Some(encoding) = Encoding::accepted(accept.unwrap_or_default()) else {
            return failure(
                &Status::not_acceptable(&Encoding::MEDIA_TYPES),
                Encoding::Json,
            );
        };
        let place = Place {
            namespace: target.namespace,
            name: target.name,
            subresource: target.subresource,
        };
        let query = head.uri.query().unwrap_or_default();
        let events = &self.shared.events;
        let answer = async {
            let sent = Sent::read(&head.headers, body).await?;
            if let (&Method::DELETE, "namespaces", Some(name)) =
                (&head.method, lister.resource.name, target.name)
            {
                let within = |lister: &&Lister| lister.resource.namespaced;
                for lister in self.shared.listers.iter().filter(within) {
                    lister.empty(name, events).await?;
                }
            }
            lister
                .write(events, place, &head.method, query, &sent, encoding)
                .await
        };
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(Ok(answer)) => {
                let mut response = respond(answer.code, encoding.media_type(), answer.body);
                for warning in answer.warnings {
                    response.headers_mut().append(WARNING, warning);
                }
                response
            }
            Ok(Err(status)) => failure(&status, encoding),
            Err(_) => failure(&Status::timeout(), encoding),
        }
    }

    pub(crate) async fn answer<B>(&self, request: &Request<B>) -> Response<KubeBody> {
        let path = request.uri().path();
        match (request.method(), path) {
            (&Method::POST, "/debug/settle") => {
                metrics::settle().await;
                text(StatusCode::OK, "settled\n")
            }
            (&Method::GET, "/healthz" | "/livez") => text(StatusCode::OK, "ok"),
            (&Method::GET, "/readyz") if self.is_ready() => text(StatusCode::OK, "ok"),
            (&Method::GET, "/readyz") => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "watch caches are being filled\n",
            ),
            (&Method::GET, "/metrics") => whole(
                metrics::CONTENT_TYPE,
                metrics::encode(&self.shared.registry),
            ),
            (&Method::GET, _) if discovery::answer(path).is_some() => {
                let body = discovery::answer(path).unwrap_or_default();
                whole(Encoding::Json.media_type(), format!("{body}\n"))
            }
            (method, _) => match target(path)
                .and_then(|target| Some((self.lister(target.resource)?, target)))
            {
                Some((lister, target)) => self.resource(lister, &target, method, request).await,
                None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
            },
        }
    }

    async fn resource<B>(
        &self,
        lister: &Lister,
        target: &Target<'_>,
        method: &Method,
        request: &Request<B>,
    ) -> Response<KubeBody> {
        let accept = request
            .headers()
            .get(ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let Some(encoding) = Encoding::accepted(accept) else {
            return failure(
                &Status::not_acceptable(&Encoding::MEDIA_TYPES),
                Encoding::Json,
            );
        };
        if method != Method::GET || target.subresource.is_some_and(|name| name != "status") {
            return failure(&Status::method_not_allowed(), encoding);
        }
        let mut options = match ListOptions::parse(request.uri().query().unwrap_or_default()) {
            Ok(options) => options,
            Err(status) => return failure(&status, encoding),
        };
        if target.watch || options.watch && target.name.is_none() {
            if let Some(name) = target.name {
                let separator = if options.field_selector.is_empty() {
                    ""
                } else {
                    ","
                };
                options.field_selector += &format!("{separator}metadata.name={name}");
            }
            let gzip = accepts_gzip(request);
            let watch = lister.watch(target.namespace, &options, encoding, gzip);
            return match tokio::time::timeout(DEADLINE, watch).await {
                Ok(Ok(body)) => watching(body),
                Ok(Err(status)) => failure(&status, encoding),
                Err(_) => failure(&Status::timeout(), encoding),
            };
        }
        let answer = async {
            if let Some(name) = target.name {
                return Ok(KubeBody::full(
                    lister
                        .get(target.namespace, name, &options, encoding)
                        .await?,
                ));
            }
            let listing = lister.list(target.namespace, &options).await?;
            let body = ListBody::new(
                lister.resource,
                encoding,
                &listing.meta,
                listing.items,
                listing.count,
                listing.items_len,
            );
            Ok(KubeBody::List(Box::new(body)))
        };
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(Ok(body)) => respond(StatusCode::OK, encoding.media_type(), body),
            Ok(Err(status)) => failure(&status, encoding),
            Err(_) => failure(&Status::timeout(), encoding),
        }
    }
}

impl Handler for KubeService {
    type Data = crate::wire::frame::Frame;
    type Body = KubeBody;

    async fn handle(self, request: Request<Incoming>) -> Response<KubeBody> {
        self.respond(request).await
    }
}

/// Reads `/api/v1/RESOURCE`, `/api/v1/namespaces/NS/RESOURCE`, `…/RESOURCE/NAME` and `…/NAME/SUBRESOURCE`, and
/// the same below `/api/v1/watch/`.
fn target(path: &str) -> Option<Target<'_>> {
    let path = path.strip_prefix("/api/v1/")?;
    let (path, watch) = match path.strip_prefix("watch/") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let mut parts = path.split('/');
    let (mut namespace, mut resource) = ("", parts.next()?);
    let mut rest = parts.clone();
    if let ("namespaces", Some(named), Some(below)) = (resource, rest.next(), rest.next()) {
        (namespace, resource, parts) = (named, below, rest);
    }
    let (name, subresource) = (parts.next(), parts.next());
    let given = |part: &str| !part.is_empty();
    let named = name.is_none_or(|name| given(name) && given(namespace));
    (given(resource) && named && subresource.is_none_or(given) && parts.next().is_none()).then_some(
        Target {
            namespace,
            resource,
            name,
            subresource,
            watch,
        },
    )
}

/// Whether the client takes gzip; weights are read no further than a refusal.
fn accepts_gzip<B>(request: &Request<B>) -> bool {
    let accepted = request.headers().get_all(ACCEPT_ENCODING).iter();
    let mut codings = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.all(|weight| weight.trim_end_matches(".0") != "q=0")
    })
}

fn watching(body: WatchBody) -> Response<KubeBody> {
    let compressed = body.is_compressed();
    let media_type = body.media_type();
    let mut response = respond(StatusCode::OK, media_type, KubeBody::Watch(Box::new(body)));
    if compressed {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn respond(code: StatusCode, content_type: &'static str, body: KubeBody) -> Response<KubeBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn text(code: StatusCode, body: &'static str) -> Response<KubeBody> {
    respond(code, TEXT, KubeBody::full(body))
}

fn whole(content_type: &'static str, body: String) -> Response<KubeBody> {
    respond(StatusCode::OK, content_type, KubeBody::full(body))
}

fn failure(status: &Status, encoding: Encoding) -> Response<KubeBody> {
    let body = encoding.status(status);
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond(code, encoding.media_type(), KubeBody::full(body));
    if status.retry_after_seconds() > 0 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(status.retry_after_seconds()));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_kubernetes_paths_name() {
        let named = |namespace, resource, name| {
            Some(Target {
                namespace,
                resource,
                name,
                subresource: None,
                watch: false,
            })
        };
        assert_eq!(target("/api/v1/pods"), named("", "pods", None));
        assert_eq!(
            target("/api/v1/namespaces/a/pods"),
            named("a", "pods", None)
        );
        assert_eq!(
            target("/api/v1/namespaces/a/pods/b"),
            named("a", "pods", Some("b"))
        );
        assert_eq!(target("/api/v1/namespaces"), named("", "namespaces", None));
        let watched = target("/api/v1/watch/namespaces/a/pods/b").expect("a watch");
        assert!(watched.watch && watched.name == Some("b") && watched.namespace == "a");
        for other in [
            "/",
            "/api/v1/",
            "/api/v1",
            "/api/v1/pods/a",
            "/api/v1/pods/",
            "/api/v1/namespaces/a/pods/b/log/c",
            "/api/v1/namespaces/a/pods/b/",
            "/apis/apps/v1/x",
        ] {
            assert_eq!(target(other), None, "{other}");
        }
    }
}
