//! Requests with large messages, none of which ends.

use std::collections::HashMap;
use std::time::Duration;

use crate::frames::{Attacker, INITIAL_WINDOW, kind};
use crate::victim::{BOTH, Port, Victim};

/// Each is a little smaller than what it announces, which both ports accept.
const MESSAGE_BYTES: usize = 1_900_000;
const UPLOADS: usize = 100;

/// The windows that HTTP/2 and the server give a client, bytes.
const DEFAULT_WINDOW: i64 = 65_535;
/// Maximum size of a frame, bytes.
const FRAME_BYTES: usize = 16_384;

/// A client of uploads on one connection, which keeps within its windows.
struct Uploader {
    attacker: Attacker,
    /// By stream; 0 is the connection's. Those of streams grow when the server says so.
    windows: HashMap<u32, i64>,
    /// Bytes that are left to send, by stream.
    left: Vec<(u32, usize)>,
}

impl Uploader {
    fn begin(authority: &str, port: Port) -> Self {
        let mut this = Self {
            attacker: Attacker::connect(authority, 65_535),
            windows: HashMap::from([(0, DEFAULT_WINDOW)]),
            left: Vec::new(),
        };
        let length = MESSAGE_BYTES.to_string();
        for _ in 0..UPLOADS {
            let attacker = &mut this.attacker;
            let stream = match port {
                Port::Etcd => {
                    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
                    let stream = attacker.begin_upload("/etcdserverpb.KV/Put", &headers);
                    let mut prefix = vec![0];
                    prefix.extend((MESSAGE_BYTES as u32).to_be_bytes());
                    attacker.data(stream, &prefix);
                    stream
                }
                Port::Kube => {
                    let headers = [
                        ("content-type", "application/json"),
                        ("content-length", length.as_str()),
                    ];
                    let path = "/api/v1/namespaces/a/configmaps";
                    let stream = attacker.begin_upload(path, &headers);
                    attacker.data(stream, b"{    ");
                    stream
                }
            };
            this.windows.insert(stream, DEFAULT_WINDOW - 5);
            *this.windows.get_mut(&0).expect("inserted") -= 5;
            this.left.push((stream, MESSAGE_BYTES - 1_000));
        }
        this
    }

    /// Sends what the windows allow; returns how many bytes, or `None` if the server has closed
    /// the connection.
    fn go_on(&mut self) -> Option<usize> {
        let content = vec![b' '; FRAME_BYTES];
        let mut sent = 0;
        for (stream, left) in &mut self.left {
            loop {
                let window = self.windows[&0].min(self.windows[stream]);
                let count = FRAME_BYTES.min(*left).min(window.max(0) as usize);
                if count == 0 {
                    break;
                }
                self.attacker.data(*stream, &content[..count]);
                for id in [0, *stream] {
                    *self.windows.get_mut(&id).expect("known") -= count as i64;
                }
                *left -= count;
                sent += count;
            }
        }
        let windows = &mut self.windows;
        let lives = self.attacker.settled(|frame| match frame.kind {
            kind::WINDOW_UPDATE => {
                let more = i64::from(frame.number());
                *windows.entry(frame.stream).or_default() += more;
            }
            kind::SETTINGS => {
                let window = frame
                    .setting(INITIAL_WINDOW)
                    .map_or(DEFAULT_WINDOW, i64::from);
                let streams = windows.iter_mut().filter(|(id, _)| **id != 0);
                streams.for_each(|(_, left)| *left += window - DEFAULT_WINDOW);
            }
            _ => {}
        });
        lives.then_some(sent)
    }
}

#[test]
fn messages_that_do_not_end_wait_for_memory() {
    const CONNECTIONS: usize = 3;
    for port in BOTH {
        let mut victim = Victim::start(&["--response-memory-bytes=33554432"]);
        victim.rest();
        let begin = |_| Uploader::begin(victim.authority(port), port);
        let mut uploaders: Vec<_> = (0..CONNECTIONS).map(begin).collect();
        let (mut sent, mut idle) = (0, 0);
        // Until the server has read nothing for half a second.
        while idle < 50 {
            let more: usize = uploaders.iter_mut().filter_map(Uploader::go_on).sum();
            sent += more;
            idle = if more == 0 { idle + 1 } else { 0 };
            std::thread::sleep(Duration::from_millis(10));
        }
        victim.serves(port);
        assert!(sent > 2 * MESSAGE_BYTES, "{sent} bytes were accepted");
        victim.until(
            port,
            "bench_server_requests_without_memory_total",
            |refused| refused >= 1.0,
        );
        drop(uploaders);
        victim.until(port, "bench_server_request_bytes", |bytes| bytes == 0.0);
        let attack = format!("{} messages that do not end", CONNECTIONS * UPLOADS);
        victim.withstands(&attack, port);
    }
}
