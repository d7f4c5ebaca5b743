//! A small Kubernetes API over a few pods, which can be told to answer wrongly.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_api::continue_token::ContinueToken;
use kube_api::list::{ListMeta, protobuf_head};
use kube_api::metadata::list_item;
use kube_api::{ListOptions, envelope};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use workloads::{DataSet, DataSetSpec, Kind};

/// Pods that it holds, and the revision that it is at.
const PODS: u64 = 10;
const REVISION: u64 = 100;

/// What is wrong with lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The second page lacks an item.
    Drop,
    /// An item is there twice.
    Repeat,
    /// Two neighbours have changed places.
    Swap,
    /// Every other list lacks an item.
    Flap,
    /// Every other list has an item with another resourceVersion.
    Renumber,
    /// The body ends early.
    CutOff,
}

/// A running server; dropped, it stops.
pub(crate) struct FakeKube {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl FakeKube {
    /// Starts one on a free port.
    pub(crate) fn start(fault: Fault) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (bound, address) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await;
                let listener = listener.expect("a free port");
                let address = listener.local_addr().expect("it is bound");
                bound.send(address).expect("the test waits for it");
                let api = Arc::new(Api::new(fault));
                loop {
                    let accepted = tokio::select! {
                        accepted = listener.accept() => accepted,
                        _ = &mut stopped => return,
                    };
                    let (socket, _) = accepted.expect("a connection");
                    let api = Arc::clone(&api);
                    let service = service_fn(move |request| {
                        let answer = api.answer(&request);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let serving =
                        http1::Builder::new().serve_connection(TokioIo::new(socket), service);
                    // A client that hangs up is no matter.
                    tokio::spawn(async move { serving.await.unwrap_or_default() });
                }
            });
        });
        Self {
            address: address.recv().expect("the server binds"),
            _stop: stop,
        }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

struct Api {
    fault: Fault,
    /// Relative key (`NAMESPACE/NAME`) and object of each pod.
    pods: Vec<(String, Vec<u8>)>,
    whole_lists: AtomicU64,
}

impl Api {
    fn new(fault: Fault) -> Self {
        let data = DataSet::new(&DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: PODS.try_into().expect("some"),
            object_size: None,
            namespaces: 2.try_into().ok(),
            nodes: 2.try_into().ok(),
            seed: 1,
        });
        let pod = |i| {
            let key = String::from_utf8(data.key(i)).expect("text");
            let stored = data.value(i);
            let object = envelope::open(&stored).expect("it is sealed").to_vec();
            (key["pods/".len()..].to_owned(), object)
        };
        Self {
            fault,
            pods: (0..PODS).map(pod).collect(),
            whole_lists: AtomicU64::new(0),
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.uri().path() != "/api/v1/pods" {
            let mut response =
                Response::new(Full::new(Bytes::from_static(b"404 page not found\n")));
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
        let query = request.uri().query().unwrap_or_default();
        let options = ListOptions::parse(query).expect("a query of our own");
        let start = match options.continue_token.as_str() {
            "" => String::new(),
            token => {
                ContinueToken::decode(token)
                    .expect("a token of our own")
                    .start
            }
        };
        let rest: Vec<_> = self.pods.iter().filter(|(key, _)| *key >= start).collect();
        let limit = match options.limit {
            0 => rest.len(),
            limit => rest.len().min(usize::try_from(limit).expect("small")),
        };
        let mut page = rest[..limit].to_vec();
        let is_last = limit == rest.len();
        let mut meta = ListMeta {
            resource_version: REVISION,
            ..ListMeta::default()
        };
        if !is_last {
            let (last, _) = page[limit - 1];
            meta.continue_token = ContinueToken::after(REVISION as i64, last).encode();
            meta.remaining_item_count = Some((rest.len() - limit) as u64);
        }
        let odd = options.limit == 0 && self.whole_lists.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let mut versions = vec!["55"; page.len()];
        match self.fault {
            Fault::Drop if !start.is_empty() => drop(page.pop()),
            Fault::Repeat if page.len() > 1 => page.insert(1, page[0]),
            Fault::Swap if page.len() > 1 => page.swap(0, 1),
            Fault::Flap if odd => drop(page.pop()),
            Fault::Renumber if odd => versions[0] = "56",
            _ => {}
        }
        versions.resize(page.len(), "55");
        let items = page.iter().zip(versions);
        let items: Vec<u8> = items
            .flat_map(|((_, object), version)| list_item(object, version).expect("an object"))
            .collect();
        let mut body = protobuf_head("v1", "PodList", &meta, items.len());
        body.extend(items);
        body.extend_from_slice(envelope::TAIL);
        if self.fault == Fault::CutOff {
            body.truncate(body.len() / 2);
        }
        Response::new(Full::new(body.into()))
    }
}
