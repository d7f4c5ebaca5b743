//! The floor below every list: the same bytes over a plain TCP socket within this machine, thread to thread, without HTTP.
//!
//! By congestion control, since one that paces costs on a path that has no bottleneck; and from memory that is in no cache, as a
//! store's is, or from one buffer: the difference is reading. CPU is each thread's clock: what the kernel does for a
//! connection within a machine it does for the sender, but for the copy to the receiver.
//!
//! `WIRE_ROUNDS` (default 5) rounds of each, by turns; `WIRE_MB` (default 1500) is what is sent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

use super::{median, setting};

/// Bytes of one write: a frame of a list.
const WRITE_BYTES: usize = 256 << 10;

/// Milliseconds.
#[derive(Debug, Default)]
struct Row {
    wall: Vec<f64>,
    sender: Vec<f64>,
    receiver: Vec<f64>,
}

pub(crate) fn run() {
    let bytes = setting("WIRE_MB", 1_500) as usize * 1_000_000;
    let rounds = setting("WIRE_ROUNDS", 5);
    // Written to, or all of it would be one page of zeros.
    let stored: Vec<u8> = (0..bytes).map(|i| (i >> 4) as u8).collect();
    let system = {
        let [sender, _receiver] = pair();
        tcp_congestion(&sender).expect("a name")
    };
    let mut rows = Vec::new();
    for control in [system.as_str(), "reno"] {
        rows.push((control, "memory", Row::default()));
        rows.push((control, "one buffer", Row::default()));
    }
    for _ in 0..rounds {
        for (control, from, row) in &mut rows {
            let source = if *from == "memory" {
                &stored
            } else {
                &stored[..WRITE_BYTES]
            };
            row.measure(control, source, bytes);
        }
    }
    println!(
        "\n{} MB over a socket by writes of {} KiB, ms: medians of {rounds} rounds; this system's congestion control is {system}",
        bytes / 1_000_000,
        WRITE_BYTES >> 10
    );
    println!(
        "{:<8} {:<12} {:>8} {:>11} {:>13}",
        "", "from", "wall", "sender CPU", "receiver CPU"
    );
    for (control, from, row) in &mut rows {
        println!(
            "{control:<8} {from:<12} {:>8.0} {:>11.0} {:>13.0}",
            median(&mut row.wall),
            median(&mut row.sender),
            median(&mut row.receiver)
        );
    }
}

impl Row {
    fn measure(&mut self, control: &str, source: &[u8], bytes: usize) {
        let [mut sender, mut receiver] = pair();
        set_tcp_congestion(&sender, control).expect("one that is there");
        let received = std::thread::spawn(move || {
            let mut buffer = vec![0; WRITE_BYTES];
            let before = own_cpu();
            while receiver.read(&mut buffer).expect("it lives") > 0 {}
            own_cpu() - before
        });
        let (began, before) = (Instant::now(), own_cpu());
        let mut left = bytes;
        for write in source.chunks(WRITE_BYTES).cycle() {
            let write = &write[..write.len().min(left)];
            sender.write_all(write).expect("it lives");
            left -= write.len();
            if left == 0 {
                break;
            }
        }
        drop(sender);
        let sender = own_cpu() - before;
        let receiver = received.join().expect("it does not panic");
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        self.wall.push(ms(began.elapsed()));
        self.sender.push(ms(sender));
        self.receiver.push(ms(receiver));
    }
}

/// The two ends of a connection.
fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let sender = TcpStream::connect(address).expect("it listens");
    sender.set_nodelay(true).expect("a socket");
    let (receiver, _) = listener.accept().expect("connected");
    [sender, receiver]
}

/// CPU time of this thread.
fn own_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("the clock is there")
        .into()
}
