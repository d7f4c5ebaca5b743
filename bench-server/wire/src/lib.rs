//! Bytes on their way out: pre-encoded records gathered into frames, and bodies that hand the
//! frames to HTTP/2 one at a time.
//!
//! - [`frame`]: the body's data type, a rope of stored records and copied runs
//! - [`part`]: a part of a shared buffer, as a frame points at it
//! - `sizes`: of frames, and from which on bytes are pointed at
//! - `buffer_pool`: the buffers that runs are copied into
//! - [`proto`]: the few protobuf fields that are written by hand around stored records
//! - [`first_byte_metric`]: from a request's head to the first write of its list
//! - [`grpc`]: message prefix, request decoding, responses; `trailers`: how a call ended
//! - [`body`]: bodies that are pulled frame by frame

pub mod body;
mod buffer_pool;
pub mod first_byte_metric;
pub mod frame;
pub mod grpc;
pub mod part;
pub mod proto;
mod sizes;
mod trailers;
