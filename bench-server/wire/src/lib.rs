//! Bytes on their way out: pre-encoded records gathered into frames, and bodies that hand the
//! frames to HTTP/2 one at a time.
//!
//! - [`frame`]: the body's data type, a rope of stored records and copied runs
//! - [`part`]: a part of a shared buffer, as a frame points at it
//! - `sizes`: of frames, and from which on bytes are pointed at
//! - `run`: the buffers that runs are copied into
//! - [`proto`]: the few protobuf fields that are written by hand around stored records
//! - [`stopwatch`]: from a request's head to the first write of its list
//! - [`grpc`]: message prefix, request decoding, responses; `trailers`: how a call ended
//! - [`body`]: bodies that are pulled frame by frame

pub mod body;
pub mod frame;
pub mod grpc;
pub mod part;
pub mod proto;
mod run;
mod sizes;
pub mod stopwatch;
mod trailers;
