//! Kubernetes list and watch vocabulary, shared by server and generator.
//!
//! - [`protobuf`]: the wire, with the rules of Kubernetes' generated code
//! - [`envelope`]: `k8s\0` and what is inside
//! - [`schema`]: the messages, for both wires; [`to_json()`], [`JsonSeries`] and [`from_json()`] walk it
//! - [`custom`]: kinds without a schema, which are stored as JSON
//! - [`metadata`]: names and versions, read and written in the encoded object
//! - [`list`]: lists sent in parts; [`continue_token`]: where the next part begins
//! - [`list_options`]: the query of a list or watch
//! - [`selector`]: labels and fields; [`shard_selector`]: ranges of a hash
//! - [`mod@status`]: errors and their bodies
//! - `client` (feature of that name): connections to a Kubernetes API, credentials, kubeconfig
//! - [`mod@hash`], [`mod@time`] and [`mod@duration`]: FNV-1a, RFC 3339, Go's durations

#[cfg(feature = "client")]
pub mod client;
pub mod continue_token;
pub mod custom;
pub mod duration;
pub mod envelope;
pub mod hash;
pub mod list;
pub mod list_options;
pub mod metadata;
pub mod protobuf;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod shard_selector;
pub mod status;
pub mod time;

mod from_json;
mod to_json;

pub use continue_token::{ContinueToken, ContinueTokenError};
pub use from_json::{FromJsonError, from_json};
pub use list::ListMeta;
pub use list_options::{ListOptions, Match};
pub use metadata::{ListItem, Metadata, item_object, list_item};
pub use shard_selector::{ShardKey, ShardRange, ShardSelector};
pub use status::Status;
pub use to_json::{JsonSeries, ToJsonError, put_string, to_json};
