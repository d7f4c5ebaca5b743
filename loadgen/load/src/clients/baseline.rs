//! The client of the baseline: a thread like that of a listing client, with the same HTTP settings,
//! and a plain socket.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use etcd_api::client::config::ClientConfig;
use etcd_api::client::raw_list::RawConnection;
use kube_api::client::{Connection, KubeAccess, Options};
use measure::thread_cpu;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::thread::{self, ThreadError};
use crate::operation::list::ListError;

/// The name of its thread.
const THREAD: &str = "baseline";
/// The time limit of a transfer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);
/// The size of a read from the plain socket.
const READ_BYTES: usize = 256 << 10;

/// The transport of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaselineTransport {
    /// The body of a response, over the same HTTP as the case's lists.
    Http,
    /// A plain socket.
    Socket,
}

/// The HTTP settings of the case's lists.
#[derive(Debug, Clone)]
pub enum HttpSettings {
    /// The settings of clients of an etcd tier: HTTP/2.
    Etcd(Box<ClientConfig>),
    /// The settings of clients of a Kubernetes tier.
    Kube(Options),
}

/// The cost of a transfer.
#[derive(Debug)]
pub struct Taken {
    /// The time from the request to the last byte.
    pub latency: Duration,
    /// The CPU time of the client's thread meanwhile.
    pub cpu: Duration,
}

type TransferRequest = (BaselineTransport, oneshot::Sender<Result<Taken, ListError>>);

/// A connected client, in a thread of its own. It stops when this is dropped.
#[derive(Debug)]
pub struct BaselineClient(mpsc::UnboundedSender<TransferRequest>);

impl BaselineClient {
    /// Connects to a baseline of `bytes` bytes. `url` serves them at any path, and `socket` sends
    /// them in response to any byte.
    ///
    /// # Errors
    /// [`ListError`] when the baseline cannot be reached.
    pub async fn connect(
        url: &str,
        socket: SocketAddr,
        http_settings: HttpSettings,
        bytes: u64,
    ) -> Result<Self, ListError> {
        let (requests, mut receiver) = mpsc::unbounded_channel::<TransferRequest>();
        let url = url.to_owned();
        let connect = async move || {
            let http = Http::connect(&url, http_settings).await?;
            let socket = TcpStream::connect(socket)
                .await
                .map_err(ListError::BaselineSocket)?;
            Ok(Connected {
                http,
                socket,
                buffer: vec![0; READ_BYTES],
                bytes,
            })
        };
        let work = async move |mut connected: Connected| {
            while let Some((transport, reply)) = receiver.recv().await {
                reply.send(connected.take(transport).await).ok();
            }
        };
        thread::connected(THREAD, ListError::Thread, connect, work).await?;
        Ok(Self(requests))
    }

    /// Receives all bytes once.
    ///
    /// # Errors
    /// [`ListError`] when the connection breaks, or another number of bytes is received.
    pub async fn take(&self, transport: BaselineTransport) -> Result<Taken, ListError> {
        let (reply, taken) = oneshot::channel();
        self.0.send((transport, reply)).ok();
        let ended = |_| Err(ThreadError::ended(THREAD).into());
        taken.await.unwrap_or_else(ended)
    }
}

enum Http {
    Etcd(RawConnection),
    Kube(Box<Connection>),
}

impl Http {
    async fn connect(url: &str, http_settings: HttpSettings) -> Result<Self, ListError> {
        match http_settings {
            HttpSettings::Etcd(config) => {
                let config = ClientConfig {
                    http2: config.http2,
                    ..ClientConfig::new(url)?
                };
                Ok(Self::Etcd(RawConnection::connect(&config, None).await?))
            }
            HttpSettings::Kube(options) => {
                let url = url.trim_end_matches('/');
                let mut connection = Connection::new(url, KubeAccess::default(), options)?;
                connection.open().await?;
                Ok(Self::Kube(Box::new(connection)))
            }
        }
    }
}

struct Connected {
    http: Http,
    socket: TcpStream,
    buffer: Vec<u8>,
    bytes: u64,
}

impl Connected {
    async fn take(&mut self, transport: BaselineTransport) -> Result<Taken, ListError> {
        let (begun, cpu) = (Instant::now(), thread_cpu());
        let received = async {
            match transport {
                BaselineTransport::Http => self.over_http().await,
                BaselineTransport::Socket => self.over_socket().await,
            }
        };
        let received = timeout(TRANSFER_TIMEOUT, received).await;
        received.unwrap_or(Err(ListError::Slow(TRANSFER_TIMEOUT)))?;
        Ok(Taken {
            latency: begun.elapsed(),
            cpu: thread_cpu().saturating_sub(cpu),
        })
    }

    async fn over_http(&mut self) -> Result<(), ListError> {
        match &mut self.http {
            Http::Etcd(connection) => Ok(connection.read_body_unchecked("/", self.bytes).await?),
            Http::Kube(connection) => {
                let found = connection.get("/", "*/*").await?.discard().await?;
                let expected = self.bytes;
                match found == expected {
                    true => Ok(()),
                    false => Err(ListError::BaselineBytes { expected, found }),
                }
            }
        }
    }

    async fn over_socket(&mut self) -> Result<(), ListError> {
        let lost = ListError::BaselineSocket;
        self.socket.write_all(&[0]).await.map_err(lost)?;
        let mut received = 0;
        while received < self.bytes {
            match self.socket.read(&mut self.buffer).await.map_err(lost)? {
                0 => {
                    let reason = "the baseline closed its socket".to_owned();
                    let bytes = received;
                    return Err(ListError::CutOff { bytes, reason });
                }
                n => received += n as u64,
            }
        }
        Ok(())
    }
}
