//! Kubernetes list and watch vocabulary, shared by server and generator.
//!
//! - [`protobuf`]: the wire, with the rules of Kubernetes' generated code
//! - [`envelope`]: `k8s\0` and what is inside
//! - [`schema`]: the messages, for both wires; [`to_json`] and [`from_json`] walk it
//! - [`time`]: times as text

pub mod envelope;
pub mod protobuf;
pub mod schema;
pub mod time;

mod from_json;
mod to_json;

pub use from_json::{FromJsonError, from_json};
pub use to_json::{ToJsonError, put_string, to_json};
