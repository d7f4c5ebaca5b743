//! Bodies of requests and responses. Pre-encoded records are collected into frames, which HTTP/2
//! polls one at a time.
//!
//! - [`frame`]: the body's data type: references to stored records, and copied bytes
//! - [`buffer_slice`]: slices of reference-counted buffers, which frames reference
//! - `sizes`: the size of frames, and the size from which on records are referenced
//! - `buffer_pool`: the buffers for copied bytes
//! - [`proto`]: the few protobuf fields that are written by hand around stored records
//! - [`first_byte_metric`]: the time from a request to the first write of its list
//! - [`grpc`]: message prefix, request decoding, responses; `trailers`: the status of a call
//! - [`message_gate`]: bodies of requests, whose large messages wait for memory
//! - [`body`]: bodies that are produced frame by frame

pub mod body;
mod buffer_pool;
pub mod buffer_slice;
pub mod first_byte_metric;
pub mod frame;
pub mod grpc;
pub mod message_gate;
pub mod proto;
mod sizes;
mod trailers;
