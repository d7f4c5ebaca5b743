//! A minimal HTTP/2 client: the part of RFC 9113 that unary gRPC calls need.
//!
//! It exists because it is cheap: all calls of a connection share one output and one input buffer,
//! and nothing is spawned or allocated per call. If a peer uses a feature that this client lacks (a
//! header table below the default, server push) or violates the protocol, the connection ends with
//! [`Ended::Unsupported`](super::Ended::Unsupported), and the caller reconnects with the `h2`
//! crate.
//!
//! - [`connection`]: the socket, its buffers, and the handling of received frames
//! - [`send`]: requests and the peer's limits; [`stream`]: the open calls
//! - [`frame`]: encodes and decodes frames; [`hpack`] and [`huffman`]: header blocks

mod connection;
mod frame;
mod hpack;
mod huffman;
mod send;
mod stream;

pub(super) use connection::MinConnection;
