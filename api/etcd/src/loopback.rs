//! Sockets between two processes of one machine, which is where benches mostly run.
//!
//! A system may have chosen a congestion control that paces what is sent, as BBR does. Between processes of one machine there is
//! no path to spare: packets wait for timers, and sending takes half as much CPU again (`docs/performance.md`). Other peers are
//! left to what the system chose.

use tokio::net::TcpStream;

/// Has no pacing, and is on every Linux: the one congestion control that cannot be left out of a kernel, nor be forbidden to
/// an ordinary user.
#[cfg(target_os = "linux")]
const UNPACED: &str = "reno";

/// Takes pacing off what `socket` sends, where its peer is this machine. Costs two or three system calls.
pub fn unpace(socket: &TcpStream) {
    #[cfg(target_os = "linux")]
    if socket.peer_addr().is_ok_and(|peer| peer.ip().is_loopback())
        && let Err(e) = rustix::net::sockopt::set_tcp_congestion(socket, UNPACED)
    {
        tracing::debug!("cannot have {UNPACED} on a socket: {e}");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::net::sockopt::tcp_congestion;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn both_ends_of_a_connection_within_the_machine_lose_their_pacing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        for socket in [near.expect("connected"), far.expect("accepted").0] {
            unpace(&socket);
            assert_eq!(tcp_congestion(&socket).expect("a name"), UNPACED);
        }
    }
}
