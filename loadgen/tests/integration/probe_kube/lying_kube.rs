//! A proxy in front of a Kubernetes API, which forwards everything except for one violation.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use kube_api::client::{Connection, KubeAccess, Options};
use serde_json::Value;
use test_support::http1_server::Http1Server;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::probe_kube::kube_lies::KubeLie;
use crate::probe_kube::kube_request::Asked;

type Body = BoxBody<Bytes, Infallible>;

/// A running proxy, which stops when dropped.
pub(crate) struct LyingKube {
    server: Http1Server,
    asked: Arc<Mutex<Vec<String>>>,
}

impl LyingKube {
    /// Starts a proxy in front of the API at `behind`, on a free port.
    pub(crate) fn start(behind: &str, lie: KubeLie) -> Self {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let relay = Relay {
            behind: behind.to_owned(),
            lie,
            asked: Arc::clone(&asked),
        };
        let server = Http1Server::start(move |request| {
            let relay = relay.clone();
            async move { relay.pass_on(request).await }
        });
        Self { server, asked }
    }

    /// Returns the proxy as a target.
    pub(crate) fn target(&self) -> String {
        format!("kube:{}", self.server.url())
    }

    /// Returns method, path and query of each request.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic holds it").clone()
    }
}

#[derive(Debug, Clone)]
struct Relay {
    behind: String,
    lie: KubeLie,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    async fn pass_on(&self, request: Request<Incoming>) -> Response<Body> {
        let line = format!("{} {}", request.method(), request.uri());
        let repeated = {
            let mut asked = self.asked.lock().expect("no panic holds it");
            let repeated = asked.iter().filter(|before| **before == line).count();
            asked.push(line);
            repeated
        };
        let accept = request.headers().get(header::ACCEPT).cloned();
        let media = request.headers().get(header::CONTENT_TYPE).cloned();
        let query = request.uri().query().unwrap_or_default();
        let query = form_urlencoded::parse(query.as_bytes());
        let mut asked = Asked {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: query.into_owned().collect(),
            is_json: accept
                .as_ref()
                .is_none_or(|accept| accept == "application/json"),
            json: Value::Null,
            repeated,
        };
        let accept = match self.lie.accepts(accept.as_ref()) {
            Some(other) => Some(HeaderValue::from_static(other)),
            None => accept,
        };
        let body = request
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        asked.json = serde_json::from_slice(&body).unwrap_or_default();
        let before = asked.clone();
        self.lie.request(&mut asked);
        if let Some((code, json)) = self.lie.instead(&before) {
            let code = StatusCode::from_u16(code).expect("a code");
            return whole(code, format!("{json}\n").into());
        }
        let body = match asked.json == before.json {
            true => body,
            false => asked.json.to_string().into(),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::ACCEPT, accept), (header::CONTENT_TYPE, media)] {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
        let path = match asked.query.is_empty() {
            true => asked.path.clone(),
            false => {
                let mut query = form_urlencoded::Serializer::new(String::new());
                format!(
                    "{}?{}",
                    asked.path,
                    query.extend_pairs(&asked.query).finish()
                )
            }
        };
        let connection = Connection::new(&self.behind, KubeAccess::default(), Options::default());
        let mut connection = connection.expect("a URL");
        let response = connection
            .send(asked.method.clone(), &path, headers, body)
            .await;
        let response = response.expect("it is there");
        let code = response.status();
        if before.is("watch", "true") && code.is_success() {
            return self.events(before, connection, response.into_body());
        }
        let body = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        match serde_json::from_slice::<Value>(&body) {
            Ok(mut json) => {
                let was = json.clone();
                let code = self.lie.response(&before, code.as_u16(), &mut json);
                let code = StatusCode::from_u16(code).expect("a code");
                match json == was {
                    true => whole(code, body),
                    false => whole(code, format!("{json}\n").into()),
                }
            }
            Err(_) => whole(code, body),
        }
    }

    /// Returns the response of a watch, which is forwarded event by event.
    fn events(&self, asked: Asked, connection: Connection, body: Incoming) -> Response<Body> {
        let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
        let lie = self.lie;
        tokio::spawn(async move {
            // The connection is kept while its response is read.
            let _connection = connection;
            let mut body = body;
            let mut unread = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                let data = frame.into_data().unwrap_or_default();
                if !asked.is_json {
                    if sender.send(data).is_err() {
                        return;
                    }
                    continue;
                }
                unread.extend_from_slice(&data);
                while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = unread.drain(..=end).collect();
                    let mut event = serde_json::from_slice(&line).expect("an event");
                    let is_told = lie.event(&asked, &mut event);
                    // The client may have ended the watch.
                    if is_told && sender.send(format!("{event}\n").into()).is_err() {
                        return;
                    }
                }
            }
        });
        let frames = UnboundedReceiverStream::new(receiver);
        let frames = frames.map(|data| Ok::<_, Infallible>(Frame::data(data)));
        Response::new(StreamBody::new(frames).boxed())
    }
}

fn whole(code: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).boxed());
    *response.status_mut() = code;
    response
}

/// Returns whether a line of [`LyingKube::asked`] is a write.
pub(crate) fn writes(line: &str) -> bool {
    !line.starts_with(Method::GET.as_str())
}
