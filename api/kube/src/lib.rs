//! Kubernetes list and watch vocabulary, shared by server and generator.
//!
//! - [`protobuf`]: the wire format, with the rules of Kubernetes' generated code
//! - [`envelope`]: the `k8s\0` envelope of objects
//! - [`schema`]: the messages on both wires; [`to_json()`], [`JsonDeltaWriter`] and [`from_json()`]
//!   use it
//! - [`custom_resource`]: kinds without a schema, which are stored as JSON
//! - [`metadata`]: names and versions, read and written in the encoded object
//! - [`list`]: lists encoded in parts; [`continue_token`]: the start of the next page
//! - [`list_options`]: the query of a list or watch
//! - [`group_version_resource`]: what paths are built from; [`resource_name`]: a resource as a
//!   person names it; [`api_resource`]: what a server says of it
//! - [`selector`]: labels and fields; [`shard_selector`]: ranges of a hash
//! - [`mod@status`]: errors and their bodies
//! - `client` (feature of that name): connections to a Kubernetes API, credentials, kubeconfig
//! - [`mod@hash`], [`mod@time`] and [`mod@duration`]: FNV-1a, RFC 3339, Go's durations

pub mod api_resource;
#[cfg(feature = "client")]
pub mod client;
pub mod continue_token;
pub mod custom_resource;
pub mod duration;
pub mod envelope;
pub mod group_version_resource;
pub mod hash;
pub mod list;
pub mod list_options;
pub mod metadata;
pub mod protobuf;
pub mod quantity;
pub mod resource_name;
pub mod schema;
pub mod selector;
pub mod shard_selector;
pub mod status;
pub mod time;

mod from_json;
mod to_json;

pub use api_resource::ApiResource;
pub use continue_token::{ContinueToken, ContinueTokenError};
pub use from_json::{FromJsonError, from_json};
pub use group_version_resource::GroupVersionResource;
pub use list::ListMeta;
pub use list_options::{ListOptions, ResourceVersionMatch};
pub use metadata::{ListItem, Metadata, item_object, list_item};
pub use resource_name::{ResourceName, ResourceNameError};
pub use shard_selector::{ShardKey, ShardRange, ShardSelector};
pub use status::Status;
pub use to_json::{JsonDeltaWriter, ToJsonError, put_string, to_json};
