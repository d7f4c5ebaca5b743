//! A relay between a tier and its etcd that can be cut, which makes storage unreachable while it
//! runs on.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Time allowed for cutting.
const CUT_TIMEOUT: Duration = Duration::from_secs(20);

/// A running relay; ends when dropped.
pub(crate) struct Proxy {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    open: watch::Sender<bool>,
    is_cut: mpsc::Receiver<()>,
}

impl Proxy {
    /// Starts a relay to the server at `url` on its own thread, because a test blocks its thread
    /// while a tier starts.
    pub(crate) fn start(url: &str) -> Self {
        let to = url.strip_prefix("http://").expect("a plain URL");
        let to: SocketAddr = to.parse().expect("an address");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket's option");
        let address = listener.local_addr().expect("bound");
        let (open, is_open) = watch::channel(true);
        let (cut, is_cut) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                relay(listener, address, to, is_open, cut).await;
            });
        });
        Self {
            url: format!("http://{address}"),
            open,
            is_cut,
        }
    }

    /// Closes every connection and refuses new ones; returns when done.
    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
        let done = self.is_cut.recv_timeout(CUT_TIMEOUT);
        done.expect("the relay cuts");
    }

    /// Accepts connections again.
    pub(crate) fn restore(&self) {
        self.open.send_replace(true);
    }
}

/// Runs until the proxy is dropped.
async fn relay(
    mut listener: TcpListener,
    address: SocketAddr,
    to: SocketAddr,
    mut is_open: watch::Receiver<bool>,
    cut: mpsc::Sender<()>,
) {
    loop {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (mut client, _) = accepted.expect("a connection");
                    connections.spawn(async move {
                        let mut server = TcpStream::connect(to).await?;
                        // Otherwise, small requests wait for acknowledgements.
                        client.set_nodelay(true)?;
                        server.set_nodelay(true)?;
                        tokio::io::copy_bidirectional(&mut client, &mut server).await
                    });
                }
                closed = is_open.wait_for(|open| !open) => match closed {
                    Ok(_) => break,
                    Err(_) => return,
                },
            }
        }
        drop(listener);
        connections.shutdown().await;
        cut.send(()).ok(); // fails if the proxy was dropped
        if is_open.wait_for(|open| *open).await.is_err() {
            return;
        }
        listener = TcpListener::bind(address).await.expect("the port is ours");
    }
}
