//! A minimal HTTP/2 client: as much of RFC 9113 as unary gRPC calls need.
//!
//! It exists for its cost: all calls of a connection share one output and one input buffer, and
//! nothing is spawned or allocated per call. A peer that uses what it lacks (a header table below
//! the default, server push) or that breaks the protocol ends the connection with
//! [`Ended::Unsupported`](super::Ended::Unsupported), and the caller goes on with the `h2` crate.
//!
//! - [`connection`]: the socket, its buffers, and the handling of received frames
//! - [`send`]: requests and the peer's limits; [`stream`]: the calls that are open
//! - [`frame`]: frames as bytes; [`hpack`] and [`huffman`]: header blocks

mod connection;
mod frame;
mod hpack;
mod huffman;
mod send;
mod stream;

pub(super) use connection::MinConnection;
