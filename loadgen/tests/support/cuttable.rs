//! A way to a server that can be cut: its connections are closed, and nobody listens for a while.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long somebody may take to connect.
const USED_WITHIN: Duration = Duration::from_secs(30);
/// Pause between looks at whether it is cut, and whether somebody connects.
const STEP: Duration = Duration::from_millis(1);

/// A relay on a thread of its own, which ends with the process.
pub(crate) struct Cuttable {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    /// Both ends of each connection.
    sockets: Arc<Mutex<Vec<[TcpStream; 2]>>>,
}

impl Cuttable {
    /// A relay to the server at this URL. A server that is gone closes its connections.
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
                        // However it ends, the other side is told.
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

    /// Closes every connection, and refuses others from now on; returns how many there have been
    /// since it was closed last.
    pub(crate) fn close(&self) -> usize {
        self.is_cut.store(true, Ordering::SeqCst);
        // Nobody listens from here on.
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

    /// Waits until somebody has connected since it was closed last.
    #[allow(dead_code, reason = "for tests of clients that look for another way")]
    pub(crate) fn until_used(&self) {
        let begun = Instant::now();
        while self.sockets.lock().expect("no panic").is_empty() {
            assert!(begun.elapsed() < USED_WITHIN, "nobody connects");
            thread::sleep(STEP);
        }
    }

    /// Accepts connections again.
    pub(crate) fn open(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }

    /// Closes every connection, and refuses others for so long.
    #[allow(dead_code, reason = "for tests that do nothing meanwhile")]
    pub(crate) fn cut(&self, time: Duration) {
        self.close();
        thread::sleep(time);
        self.open();
    }
}
