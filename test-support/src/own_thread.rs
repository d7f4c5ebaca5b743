//! Servers of tests on threads of their own, since a test may block its thread, and each of its
//! cases may have another runtime.

use std::net::SocketAddr;
use std::thread;

use tokio::net::TcpListener;

/// Runs `serve` with a listener on a free port of loopback, on a thread with a runtime of its own,
/// which ends with it. Returns the listener's address.
///
/// # Panics
/// If there is no free port, or the thread cannot be started.
pub fn serve_on_own_thread<F, S>(serve: F) -> SocketAddr
where
    F: FnOnce(TcpListener) -> S + Send + 'static,
    S: Future<Output = ()>,
{
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket's option");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            serve(TcpListener::from_std(listener).expect("a listener")).await;
        });
    });
    address
}
