//! A relay to a server that can be cut: its connections are closed, and new ones refused for a
//! while.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for a client to connect.
const USED_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of checks whether the relay is cut, and whether a client connects.
const STEP: Duration = Duration::from_millis(1);

/// A relay on its own thread, which ends with the process.
pub(crate) struct Cuttable {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    /// Both ends of each connection.
    sockets: Arc<Mutex<Vec<[TcpStream; 2]>>>,
}

impl Cuttable {
    /// Starts a relay to the server at this URL. If the server ends, its connections are closed.
    pub(crate) fn to(server: &str) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let bound = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = bound.local_addr().expect("bound");
        let is_cut = Arc::new(AtomicBool::new(false));
        let sockets: Arc<Mutex<Vec<[TcpStream; 2]>>> = Arc::default();
        let (cut, open) = (Arc::clone(&is_cut), Arc::clone(&sockets));
        bound.set_nonblocking(true).expect("a socket");
        let mut listener = Some(bound);
        thread::spawn(move || {
            loop {
                thread::sleep(STEP);
                if cut.load(Ordering::SeqCst) {
                    listener = None;
                    continue;
                }
                let listening = listener.get_or_insert_with(|| {
                    let bound = TcpListener::bind(address).expect("its port is free");
                    bound.set_nonblocking(true).expect("a socket");
                    bound
                });
                let Ok((client, _)) = listening.accept() else {
                    continue;
                };
                client.set_nonblocking(false).expect("a socket");
                let Ok(there) = TcpStream::connect(&server) else {
                    continue;
                };
                let both = [(&client, &there), (&there, &client)];
                for (from, to) in both.map(|(a, b)| (a.try_clone(), b.try_clone())) {
                    let (mut from, mut to) = (from.expect("a socket"), to.expect("a socket"));
                    thread::spawn(move || {
                        // The other side is closed for any end of this side.
                        std::io::copy(&mut from, &mut to).ok();
                        to.shutdown(Shutdown::Both).ok();
                    });
                }
                open.lock().expect("no panic").push([client, there]);
            }
        });
        Self {
            address,
            is_cut,
            sockets,
        }
    }

    /// Returns the URL of the relay.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes every connection, and refuses new ones from now on; returns the number of connections
    /// since the last call.
    pub(crate) fn close(&self) -> usize {
        self.is_cut.store(true, Ordering::SeqCst);
        // After this loop, nothing listens.
        while TcpStream::connect(self.address).is_ok() {
            thread::sleep(STEP);
        }
        let mut sockets = self.sockets.lock().expect("no panic");
        let closed = sockets.len();
        for socket in sockets.drain(..).flatten() {
            socket.shutdown(Shutdown::Both).ok();
        }
        closed
    }

    /// Waits until a client has connected since the last [`Self::close`].
    #[allow(dead_code, reason = "for tests of clients that look for another way")]
    pub(crate) fn until_used(&self) {
        let begun = Instant::now();
        while self.sockets.lock().expect("no panic").is_empty() {
            assert!(begun.elapsed() < USED_TIMEOUT, "nobody connects");
            thread::sleep(STEP);
        }
    }

    /// Accepts connections again.
    pub(crate) fn open(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }

    /// Closes every connection, and refuses new ones for this time.
    #[allow(dead_code, reason = "for tests that do nothing meanwhile")]
    pub(crate) fn cut(&self, time: Duration) {
        self.close();
        thread::sleep(time);
        self.open();
    }
}
