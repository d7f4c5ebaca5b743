//! A relay in front of a server, for tests of what a bad connection does to its clients.
//!
//! It can close all connections and refuse new ones for a while ([`Proxy::cut`]), and give each
//! connection a [`Link`]: bytes that are late, slow, or end half-way.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::own_thread::serve_on_own_thread;

/// Time allowed for cutting, and for a client to connect.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of checks whether a client has connected.
const STEP: Duration = Duration::from_millis(1);
const BUFFER_BYTES: usize = 16 << 10;
/// Number of buffers that may be on the way: what exceeds them makes the sender wait.
const ON_THE_WAY: usize = 1_024;

/// What happens to the bytes of a connection. The default forwards them at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// How much later bytes arrive than they were sent, in either direction.
    pub delay: Duration,
    /// The largest number of bytes that the client receives in a second; `None` for no limit.
    pub bytes_per_s: Option<u32>,
    /// The number of bytes from the server after which the connection ends, and how; `None` if it
    /// does not.
    pub end: Option<(u64, End)>,
}

/// How a connection ends half-way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both directions are closed, on both sides.
    Cut,
    /// The client reads an end of the stream, while its own bytes still reach the server.
    HalfClose,
}

/// A running relay; ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    /// The number of connections since the last cut.
    accepted: Arc<AtomicUsize>,
    /// A message for each cut and each restoration that is done.
    done: Mutex<mpsc::Receiver<()>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    is_cut: bool,
    link: Link,
}

impl Proxy {
    /// Starts a relay to the server at `url` (`http://` and an address) on a thread of its own.
    ///
    /// # Panics
    /// If the URL is another, or the thread cannot be started.
    #[must_use]
    pub fn start(url: &str) -> Self {
        let to = url.strip_prefix("http://").expect("a plain URL");
        let to: SocketAddr = to.parse().expect("an address");
        let (state, states) = watch::channel(State::default());
        let (done, all_done) = mpsc::channel();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&accepted);
        let address = serve_on_own_thread(move |listener| async move {
            relay(listener, to, states, &counted, &done).await;
        });
        Self {
            address,
            state,
            accepted,
            done: Mutex::new(all_done),
        }
    }

    /// Returns `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Gives connections from now on this link. Those that are open keep theirs.
    pub fn set(&self, link: Link) {
        self.state.send_modify(|state| state.link = link);
    }

    /// Closes every connection and refuses new ones. Returns when that is done, with the number of
    /// connections since the last cut.
    ///
    /// # Panics
    /// If it takes longer than 30 s.
    pub fn cut(&self) -> usize {
        self.make_cut(true);
        self.accepted.swap(0, Ordering::SeqCst)
    }

    /// Accepts connections again. Returns when it does.
    ///
    /// # Panics
    /// If it takes longer than 30 s.
    pub fn restore(&self) {
        self.make_cut(false);
    }

    fn make_cut(&self, is_cut: bool) {
        let done = self.done.lock().expect("no thread panics with it");
        let is_new = self
            .state
            .send_if_modified(|state| std::mem::replace(&mut state.is_cut, is_cut) != is_cut);
        if is_new {
            done.recv_timeout(TIMEOUT).expect("the relay follows");
        }
    }

    /// Closes every connection, and refuses new ones for this time.
    pub fn cut_for(&self, time: Duration) {
        self.cut();
        thread::sleep(time);
        self.restore();
    }

    /// Waits until a client has connected since the last cut.
    ///
    /// # Panics
    /// If none does within 30 s.
    pub fn until_used(&self) {
        let begun = std::time::Instant::now();
        while self.accepted.load(Ordering::SeqCst) == 0 {
            assert!(begun.elapsed() < TIMEOUT, "nobody connects");
            thread::sleep(STEP);
        }
    }
}

/// Runs until the proxy is dropped.
async fn relay(
    mut listener: TcpListener,
    to: SocketAddr,
    mut states: watch::Receiver<State>,
    accepted: &AtomicUsize,
    done: &mpsc::Sender<()>,
) {
    let address = listener.local_addr().expect("bound");
    let links = states.clone();
    loop {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                client = listener.accept() => {
                    let (client, _) = client.expect("a connection");
                    accepted.fetch_add(1, Ordering::SeqCst);
                    let link = links.borrow().link;
                    connections.spawn(forward(client, to, link));
                }
                closed = states.wait_for(|state| state.is_cut) => match closed {
                    Ok(_) => break,
                    Err(_) => return,
                },
            }
        }
        drop(listener);
        connections.shutdown().await;
        done.send(()).ok(); // fails if the proxy was dropped
        if states.wait_for(|state| !state.is_cut).await.is_err() {
            return;
        }
        listener = TcpListener::bind(address).await.expect("the port is ours");
        done.send(()).ok();
    }
}

/// Forwards a connection until both directions have ended, or one has broken.
async fn forward(client: TcpStream, to: SocketAddr, link: Link) -> io::Result<()> {
    let server = TcpStream::connect(to).await?;
    // Otherwise, small requests wait for acknowledgements.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = Link {
        delay: link.delay,
        ..Link::default()
    };
    tokio::try_join!(
        pass(from_client, to_server, up),
        pass(from_server, to_client, link)
    )?;
    Ok(())
}

/// Forwards one direction. An error ends the other one, too.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, link: Link) -> io::Result<()> {
    let (sender, mut on_the_way) = tokio::sync::mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let read = async move {
        let mut left = link.end.map_or(u64::MAX, |(after, _)| after);
        while left > 0 {
            let mut bytes = vec![0; BUFFER_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX))];
            let read = from.read(&mut bytes).await?;
            if read == 0 {
                return Ok(None);
            }
            bytes.truncate(read);
            left -= read as u64;
            let due = Instant::now() + link.delay;
            if sender.send((due, bytes)).await.is_err() {
                return Ok(None);
            }
        }
        io::Result::Ok(Some(from))
    };
    let write = async {
        let mut free = Instant::now();
        while let Some((due, bytes)) = on_the_way.recv().await {
            let at = due.max(free);
            // A timer would take a millisecond even for what is due.
            if at > Instant::now() {
                sleep_until(at).await;
            }
            to.write_all(&bytes).await?;
            if let Some(rate) = link.bytes_per_s {
                free = at + Duration::from_secs(1).mul_f64(bytes.len() as f64 / f64::from(rate));
            }
        }
        io::Result::Ok(())
    };
    let (unread, ()) = tokio::try_join!(read, write)?;
    match (link.end, unread) {
        (Some((_, End::Cut)), Some(_)) => Err(io::ErrorKind::ConnectionAborted.into()),
        (_, unread) => {
            to.shutdown().await?;
            if let Some(mut from) = unread {
                // The server must not notice that nobody reads.
                tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
            }
            Ok(())
        }
    }
}
