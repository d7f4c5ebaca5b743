//! Emulates a network between clients and a server that is slower than loopback, with a relay that
//! delays bytes.
//!
//! Half of the round-trip time passes in each direction. All connections share the bandwidth of a
//! direction, and each client receives no faster than its read rate. Bytes that cannot be passed on
//! yet wait in the relay, up to [`Link::buffer_bytes`]. Then the relay stops reading, and TCP slows
//! the sender down. Losses, reordering, TCP's handshake and its slow start are not emulated. The
//! relay is part of the generator, and so is its CPU time.
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

/// The address on which a new relay listens.
const ANY_PORT: (&str, u16) = ("127.0.0.1", 0);
/// The smallest buffer of the relay, in bytes.
const MIN_BUFFER: u64 = 64 << 10;
/// The largest buffer of the relay for each direction of each connection, in bytes.
const MAX_BUFFER: u64 = 8 << 20;
/// How long to wait when no connection can be accepted, for example because file descriptors have
/// run out.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The properties of a network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// The round-trip time, without the time that bytes wait in queues.
    pub rtt: Duration,
    /// The bandwidth of each direction in bytes per second, for all connections together; `None`
    /// for no limit.
    pub bandwidth: Option<u64>,
    /// The rate at which each connection's client reads, in bytes per second; `None` for no limit.
    pub client_read_rate: Option<u64>,
}

impl Link {
    /// Returns the size of the relay's buffer for each direction of each connection: the bytes that
    /// are in flight during one round trip, between 64 KiB and 8 MiB.
    #[must_use]
    pub fn buffer_bytes(&self) -> u32 {
        let limits = [self.bandwidth, self.client_read_rate];
        let slowest = limits.into_iter().flatten().min();
        let bytes = match slowest {
            Some(rate) => (rate as f64 * self.rtt.as_secs_f64()) as u64,
            None if self.rtt.is_zero() => MIN_BUFFER,
            None => MAX_BUFFER,
        };
        bytes.clamp(MIN_BUFFER, MAX_BUFFER) as u32
    }
}

/// A running relay, in a thread of its own. It stops when this is dropped.
#[derive(Debug)]
pub struct Shaper {
    address: SocketAddr,
    _end: oneshot::Sender<()>,
}

/// The failure of a relay.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    /// There is no port or no thread.
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
    /// [`ShaperError`] when there is no port or no thread.
    pub async fn start(to: SocketAddr, link: Link) -> Result<Self, ShaperError> {
        let (end, ended) = oneshot::channel::<()>();
        let body = async move |result: oneshot::Sender<Result<SocketAddr, ShaperError>>| {
            let bound = async {
                let listener = TcpListener::bind(ANY_PORT).await?;
                let address = listener.local_addr()?;
                Ok((listener, address))
            };
            let (listener, address) = match bound.await {
                Ok(bound) => bound,
                Err(error) => {
                    result.send(Err(ShaperError::Start(error))).ok();
                    return;
                }
            };
            // The caller may have gone. In that case `ended` closes.
            result.send(Ok(address)).ok();
            tokio::select! {
                () = accept(&listener, to, link) => {}
                // It is never sent: the other half is dropped.
                _ = ended => {}
            }
        };
        let bound = thread::start("shaper", ShaperError::Start, body)?;
        let address = bound.await.map_err(|_| ShaperError::Ended)??;
        Ok(Self { address, _end: end })
    }

    /// Returns the address to which clients connect instead of the server's.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Accepts connections for as long as it is polled. Closes them when dropped.
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

/// Relays one connection until both sides have ended or one fails. The client sees a failure as the
/// end of the connection.
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
    // Otherwise bytes that are passed on late would wait for acknowledgements, too.
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
    // The first failure ends both directions.
    tokio::try_join!(requests, responses).ok();
}

/// Connects to the server with a receive buffer no larger than the relay's: the network would have
/// stopped what waits in that buffer.
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
