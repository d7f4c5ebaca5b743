//! The lower bound of every list: the same bytes over a plain TCP socket within this machine, from
//! thread to thread, without HTTP.
//!
//! Results are by congestion control, since pacing has a cost on a path without a bottleneck, and
//! by what is written:
//!
//! - `memory`: 256 KiB at a time, of memory that is not in a CPU cache, like a store's
//! - `one buffer`: the same 256 KiB each time; the difference is the cost of reading memory
//! - `16 slices`: records of 10 KB in two pieces, 16 pieces per write, as h2 without further
//!   measures would write a frame of them
//! - `52 slices`: the same records, a frame of 26 per write
//!
//! CPU times are from each thread's CPU clock. For a connection within a machine, the kernel's work
//! counts for the sender, except for the copy to the receiver.
//!
//! `WIRE_ROUNDS` (default 5) is the number of interleaved rounds; `WIRE_MB` (default 1500) is the
//! number of megabytes that are sent.

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

use super::{median, setting};

/// Size of one write, bytes: a frame of a list.
const WRITE_BYTES: usize = 256 << 10;

/// Sizes of a record's two pieces, bytes.
const PIECES: [usize; 2] = [8_192, 1_868];

/// Number of records in one frame.
const RECORDS: usize = 26;

/// The source and the form of the written bytes.
#[derive(Debug, Clone, Copy)]
enum Writes {
    Memory,
    OneBuffer,
    Slices(usize),
}

impl Writes {
    const ALL: [(&str, Self); 4] = [
        ("memory", Self::Memory),
        ("one buffer", Self::OneBuffer),
        ("16 slices", Self::Slices(16)),
        ("52 slices", Self::Slices(2 * RECORDS)),
    ];

    /// Sends `stored`, or the same number of other bytes.
    fn send(self, stored: &[u8], socket: &mut TcpStream) {
        match self {
            Self::Memory => {
                for write in stored.chunks(WRITE_BYTES) {
                    socket.write_all(write).expect("it lives");
                }
            }
            Self::OneBuffer => {
                for write in stored.chunks(WRITE_BYTES) {
                    let write = &stored[..write.len()];
                    socket.write_all(write).expect("it lives");
                }
            }
            Self::Slices(most) => {
                // The records are sent from the last to the first, so that no record is adjacent to
                // the one sent before it.
                let records: Vec<&[u8]> = stored.rchunks(PIECES.iter().sum()).collect();
                for frame in records.chunks(RECORDS) {
                    let pieces = frame.iter().flat_map(|record| {
                        let (head, tail) = record.split_at(PIECES[0].min(record.len()));
                        [IoSlice::new(head), IoSlice::new(tail)]
                    });
                    let mut pieces: Vec<IoSlice<'_>> = pieces.collect();
                    for write in pieces.chunks_mut(most) {
                        write_all_vectored(socket, write);
                    }
                }
            }
        }
    }
}

fn write_all_vectored(socket: &mut TcpStream, mut slices: &mut [IoSlice<'_>]) {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let written = socket.write_vectored(slices).expect("it lives");
        IoSlice::advance_slices(&mut slices, written);
    }
}

/// Times, in milliseconds.
#[derive(Debug, Default)]
struct Row {
    wall: Vec<f64>,
    sender: Vec<f64>,
    receiver: Vec<f64>,
}

pub(crate) fn run() {
    let bytes = setting("WIRE_MB", 1_500) as usize * 1_000_000;
    let rounds = setting("WIRE_ROUNDS", 5);
    // The memory is written to, otherwise all of it would be one page of zeros.
    let stored: Vec<u8> = (0..bytes).map(|i| (i >> 4) as u8).collect();
    let system = {
        let [sender, _receiver] = pair();
        tcp_congestion(&sender).expect("a name")
    };
    let mut rows = Vec::new();
    for control in [system.as_str(), "reno"] {
        rows.extend(Writes::ALL.map(|(name, writes)| (control, name, writes, Row::default())));
    }
    for _ in 0..rounds {
        for (control, _, writes, row) in &mut rows {
            row.measure(control, *writes, &stored);
        }
    }
    println!(
        "\n{} MB over a socket, ms: medians of {rounds} rounds; this system's congestion control is {system}",
        bytes / 1_000_000
    );
    println!(
        "{:<8} {:<12} {:>8} {:>11} {:>13}",
        "", "writes", "wall", "sender CPU", "receiver CPU"
    );
    for (control, name, _, row) in &mut rows {
        println!(
            "{control:<8} {name:<12} {:>8.0} {:>11.0} {:>13.0}",
            median(&mut row.wall),
            median(&mut row.sender),
            median(&mut row.receiver)
        );
    }
}

impl Row {
    fn measure(&mut self, control: &str, writes: Writes, stored: &[u8]) {
        let [mut sender, mut receiver] = pair();
        set_tcp_congestion(&sender, control).expect("one that is there");
        let received = std::thread::spawn(move || {
            let mut buffer = vec![0; WRITE_BYTES];
            let before = own_cpu();
            while receiver.read(&mut buffer).expect("it lives") > 0 {}
            own_cpu() - before
        });
        let (began, before) = (Instant::now(), own_cpu());
        writes.send(stored, &mut sender);
        drop(sender);
        let sender = own_cpu() - before;
        let receiver = received.join().expect("it does not panic");
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        self.wall.push(ms(began.elapsed()));
        self.sender.push(ms(sender));
        self.receiver.push(ms(receiver));
    }
}

/// Returns the two ends of a connection.
fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let sender = TcpStream::connect(address).expect("it listens");
    sender.set_nodelay(true).expect("a socket");
    let (receiver, _) = listener.accept().expect("connected");
    [sender, receiver]
}

/// Returns the CPU time of this thread so far.
fn own_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("the clock is there")
        .into()
}
