//! An HTTP/2 client that sends frames which no client library would send.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Read and write timeout of the socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// The setting with the window of new streams.
pub(crate) const INITIAL_WINDOW: u16 = 4;

/// A received frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Returns the error code of a RST_STREAM, or the increment of a WINDOW_UPDATE.
    pub(crate) fn number(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("four bytes"))
    }
}

impl Frame {
    /// Returns the value of a setting, if the frame is SETTINGS and has it.
    pub(crate) fn setting(&self, wanted: u16) -> Option<u32> {
        let (settings, _) = self.payload.as_chunks::<6>();
        settings.iter().find_map(|[high, low, value @ ..]| {
            let is_wanted = u16::from_be_bytes([*high, *low]) == wanted;
            is_wanted.then(|| u32::from_be_bytes(*value))
        })
    }
}

/// A connection whose bytes are all under the test's control.
pub(crate) struct Attacker {
    socket: TcpStream,
    next_stream: u32,
    /// Queued frames, which are sent together.
    out: Vec<u8>,
}

impl Attacker {
    /// Connects and queues the preface and the settings; the server may send `window` bytes on each
    /// stream.
    pub(crate) fn connect(authority: &str, window: u32) -> Self {
        let socket = TcpStream::connect(authority).expect("it listens");
        socket
            .set_read_timeout(Some(SOCKET_TIMEOUT))
            .expect("a timeout");
        socket
            .set_write_timeout(Some(SOCKET_TIMEOUT))
            .expect("a timeout");
        let mut attacker = Self {
            socket,
            next_stream: 1,
            out: PREFACE.to_vec(),
        };
        let mut setting = INITIAL_WINDOW.to_be_bytes().to_vec();
        setting.extend(window.to_be_bytes());
        attacker.put(kind::SETTINGS, 0, 0, &setting);
        attacker.put(kind::SETTINGS, ACK, 0, &[]);
        attacker
    }

    /// Queues a WINDOW_UPDATE that opens the connection's window as far as HTTP/2 allows.
    pub(crate) fn open_connection_window(&mut self) {
        self.put(kind::WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    }

    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        self.out.extend_from_slice(&length[1..]);
        self.out.extend_from_slice(&[kind, flags]);
        self.out.extend_from_slice(&stream.to_be_bytes());
        self.out.extend_from_slice(payload);
    }

    fn head(&mut self, flags: u8, fields: &[(&str, &str)]) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut block = Vec::new();
        for (name, value) in fields {
            // A literal that is not indexed, with a name and a value shorter than 127 bytes.
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).expect("short"));
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.put(kind::HEADERS, flags | END_HEADERS, stream, &block);
        stream
    }

    /// Queues a complete GET request; returns its stream.
    pub(crate) fn get(&mut self, path: &str) -> u32 {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "victim"),
        ];
        self.head(END_STREAM, &fields)
    }

    /// Queues a gRPC call; returns its stream. With `None`, the call's message is never sent.
    pub(crate) fn call(&mut self, path: &str, message: Option<&[u8]>) -> u32 {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "victim"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let stream = self.head(0, &fields);
        if let Some(message) = message {
            let mut framed = vec![0];
            framed.extend((message.len() as u32).to_be_bytes());
            framed.extend_from_slice(message);
            self.put(kind::DATA, END_STREAM, stream, &framed);
        }
        stream
    }

    /// Queues the head of an upload with a method and headers; returns its stream.
    pub(crate) fn begin_upload(&mut self, path: &str, headers: &[(&str, &str)]) -> u32 {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "victim"),
        ];
        self.head(0, &[&fields[..], headers].concat())
    }

    /// Queues DATA that does not end its stream. The caller keeps within the windows.
    pub(crate) fn data(&mut self, stream: u32, bytes: &[u8]) {
        self.put(kind::DATA, 0, stream, bytes);
    }

    /// Queues a frame of a head that never ends: the first, or another one.
    pub(crate) fn head_fragment(&mut self, is_first: bool, bytes: &[u8]) {
        let kind = if is_first {
            kind::HEADERS
        } else {
            kind::CONTINUATION
        };
        self.put(kind, 0, self.next_stream, bytes);
    }

    pub(crate) fn reset(&mut self, stream: u32) {
        self.put(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }

    /// Makes `count` requests, a hundred at a time. The server keeps the connection.
    #[track_caller]
    pub(crate) fn request_many(&mut self, count: u32, mut request: impl FnMut(&mut Self)) {
        for _ in 0..count / 100 {
            for _ in 0..100 {
                request(self);
            }
            assert!(self.settled(|_| {}), "it is within its limits");
        }
    }

    /// Sends the queued frames.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        self.socket.write_all(&out)
    }

    /// Returns the next frame, or `None` if the server has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.socket.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind: head[3],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// Waits until the server has read everything that was sent, which its response to a PING
    /// shows. Passes the frames received before that to `see`. Returns false if the server has
    /// closed the connection.
    pub(crate) fn settled(&mut self, mut see: impl FnMut(&Frame)) -> bool {
        self.put(kind::PING, 0, 0, b"settled?");
        if self.send().is_err() {
            return false;
        }
        while let Some(frame) = self.receive() {
            if frame.kind == kind::PING {
                return true;
            }
            see(&frame);
        }
        false
    }
}
