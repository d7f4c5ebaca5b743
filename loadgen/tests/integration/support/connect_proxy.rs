//! An HTTP proxy on a free port of loopback that only makes tunnels (CONNECT).

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A running proxy. Its threads end with the process, or with their connections.
pub(crate) struct ConnectProxy {
    pub(crate) address: SocketAddr,
    hosts: Arc<Mutex<Vec<String>>>,
}

impl ConnectProxy {
    /// Starts a proxy that takes only requests with this value of `Proxy-Authorization`.
    pub(crate) fn start(authorization: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let hosts: Arc<Mutex<Vec<String>>> = Arc::default();
        let tunnelled = Arc::clone(&hosts);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let tunnelled = Arc::clone(&tunnelled);
                // An error ends the connection, which the client reports.
                thread::spawn(move || tunnel(client, authorization, &tunnelled).ok());
            }
        });
        Self { address, hosts }
    }

    /// Returns the hosts to which it has made tunnels, in order.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.hosts.lock().expect("no thread panics").clone()
    }
}

fn tunnel(mut client: TcpStream, allowed: &str, hosts: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut authorization = None;
    // Clients send nothing behind the head until they have the response.
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("proxy-authorization")
        {
            authorization = Some(value.to_owned());
        }
    }
    if authorization.as_deref() != Some(allowed) {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    }
    let mut words = first.split(' ');
    let (Some("CONNECT"), Some(host)) = (words.next(), words.next()) else {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n");
    };
    let server = TcpStream::connect(host)?;
    hosts
        .lock()
        .expect("no thread panics")
        .push(host.to_owned());
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let back = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || forward(back.0, back.1));
    forward(client, server);
    Ok(())
}

/// Forwards bytes until one side ends.
fn forward(mut from: TcpStream, mut to: TcpStream) {
    io::copy(&mut from, &mut to).ok();
    for side in [&from, &to] {
        side.shutdown(Shutdown::Both).ok();
    }
}
