//! A network between clients and a server that is not as fast as loopback: a relay that holds bytes
//! back.
//!
//! Half of the round-trip time passes in each direction, the bytes of all connections in one
//! direction share the bandwidth, and each client takes what it gets no faster than its read rate.
//! What cannot be passed on yet waits in the relay, up to [`Link::buffer_bytes`]; then the relay
//! reads no more, and TCP tells the sender. Not imitated are losses, reordering, the handshake of
//! TCP and its slow start. The relay is part of the generator: its CPU is the generator's.
//!
//! - [`mod@relay`]: one direction of one connection

mod relay;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::relay::{RateLimit, Way, relay};
use crate::clients::thread;

/// Where a new relay listens.
const ANY_PORT: (&str, u16) = ("127.0.0.1", 0);
/// Bytes that wait in the relay at least.
const LEAST_BUFFER: u64 = 64 << 10;
/// Bytes that wait in the relay at most, for each direction of each connection.
const MOST_BUFFER: u64 = 8 << 20;
/// How long to wait when no connection can be had, as when descriptors have run out.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What a network is like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// There and back again, without what bytes wait for.
    pub rtt: Duration,
    /// Bytes a second in each direction, of all connections together; `None` for no limit.
    pub bandwidth: Option<u64>,
    /// Bytes a second that one connection's client takes; `None` for no limit.
    pub client_read_rate: Option<u64>,
}

impl Link {
    /// Returns how many bytes wait in the relay at most, for each direction of each connection:
    /// what is on its way in one round trip, between 64 KiB and 8 MiB.
    #[must_use]
    pub fn buffer_bytes(&self) -> u32 {
        let limits = [self.bandwidth, self.client_read_rate];
        let slowest = limits.into_iter().flatten().min();
        let bytes = match slowest {
            Some(rate) => (rate as f64 * self.rtt.as_secs_f64()) as u64,
            None if self.rtt.is_zero() => LEAST_BUFFER,
            None => MOST_BUFFER,
        };
        bytes.clamp(LEAST_BUFFER, MOST_BUFFER) as u32
    }
}

/// A relay that runs, in a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Shaper {
    address: SocketAddr,
    _end: oneshot::Sender<()>,
}

/// Why there is no relay.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    /// No port or no thread.
    #[error("the relay that slows the network down cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// The thread ended before it listened.
    #[error("the relay that slows the network down has ended")]
    Ended,
}

impl Shaper {
    /// Starts a relay to a server.
    ///
    /// # Errors
    /// [`ShaperError`] when it has no port or no thread.
    pub async fn start(to: SocketAddr, link: Link) -> Result<Self, ShaperError> {
        let (end, ended) = oneshot::channel::<()>();
        let body = async move |says: oneshot::Sender<Result<SocketAddr, ShaperError>>| {
            let bound = async {
                let listener = TcpListener::bind(ANY_PORT).await?;
                let address = listener.local_addr()?;
                Ok((listener, address))
            };
            let (listener, address) = match bound.await {
                Ok(bound) => bound,
                Err(error) => {
                    says.send(Err(ShaperError::Start(error))).ok();
                    return;
                }
            };
            // Whoever asked may have gone; then `ended` closes.
            says.send(Ok(address)).ok();
            tokio::select! {
                () = accept(&listener, to, link) => {}
                // It is never sent: the other half is dropped.
                _ = ended => {}
            }
        };
        let said = thread::start("shaper", ShaperError::Start, body)?;
        let address = said.await.map_err(|_| ShaperError::Ended)??;
        Ok(Self { address, _end: end })
    }

    /// Returns where clients connect instead of to the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Takes connections for as long as it is polled; dropped, it closes them.
async fn accept(listener: &TcpListener, to: SocketAddr, link: Link) {
    let limit = || link.bandwidth.map(|rate| Arc::new(RateLimit::new(rate)));
    let (there, back) = (limit(), limit());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    let (there, back) = (there.clone(), back.clone());
                    connections.spawn(connection(client, to, link, there, back));
                }
                Err(_) => sleep(RETRY_AFTER).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// One connection, until both sides have ended or one fails. A client sees a connection that ends.
async fn connection(
    client: TcpStream,
    to: SocketAddr,
    link: Link,
    there: Option<Arc<RateLimit>>,
    back: Option<Arc<RateLimit>>,
) {
    let Ok(server) = connected(to, link.buffer_bytes()).await else {
        return;
    };
    // Without it what is passed on late would wait for acknowledgements, too.
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let reads = link
        .client_read_rate
        .map(|rate| Arc::new(RateLimit::new(rate)));
    let way = |limits| Way {
        delay: link.rtt / 2,
        limits,
        buffer_bytes: link.buffer_bytes() as usize,
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = relay(from_client, to_server, way(there.into_iter().collect()));
    let responses = relay(
        from_server,
        to_client,
        way(back.into_iter().chain(reads).collect()),
    );
    // The first that fails ends both.
    tokio::try_join!(requests, responses).ok();
}

/// A connection to the server whose socket holds no more than the relay: what waits there is what
/// the network would have stopped.
async fn connected(to: SocketAddr, buffer_bytes: u32) -> std::io::Result<TcpStream> {
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_recv_buffer_size(buffer_bytes)?;
    socket.connect(to).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn a_relay_holds_what_is_on_its_way_in_a_round_trip() {
        let link = |rtt_ms, bandwidth| Link {
            rtt: Duration::from_millis(rtt_ms),
            bandwidth,
            client_read_rate: None,
        };
        assert_eq!(link(100, Some(10_000_000)).buffer_bytes(), 1_000_000);
        assert_eq!(link(0, Some(10_000_000)).buffer_bytes(), 64 << 10);
        assert_eq!(link(100, None).buffer_bytes(), 8 << 20);
        assert_eq!(link(0, None).buffer_bytes(), 64 << 10);
    }

    #[tokio::test]
    async fn bytes_come_through_in_order_in_both_directions_and_so_does_the_end() {
        let server = TcpListener::bind(ANY_PORT).await.expect("a port");
        let to = server.local_addr().expect("bound");
        tokio::spawn(async move {
            let (mut socket, _) = server.accept().await.expect("a client");
            let mut all = Vec::new();
            socket.read_to_end(&mut all).await.expect("until it ends");
            all.reverse();
            socket.write_all(&all).await.expect("it reads");
        });
        let link = Link {
            rtt: Duration::from_millis(2),
            bandwidth: Some(100_000_000),
            client_read_rate: Some(50_000_000),
        };
        let shaper = Shaper::start(to, link).await.expect("a port");
        let mut client = TcpStream::connect(shaper.address())
            .await
            .expect("it listens");
        let sent: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        client.write_all(&sent).await.expect("it reads");
        client.shutdown().await.expect("one direction");
        let mut received = Vec::new();
        client
            .read_to_end(&mut received)
            .await
            .expect("until it ends");
        received.reverse();
        assert!(received == sent, "{} bytes", received.len());
    }
}
