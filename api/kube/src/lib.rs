//! The formats and rules of Kubernetes' list and watch API, shared by the bench server and the
//! generator.
//!
//! - [`protobuf`]: the wire format, with the rules of Kubernetes' generated code
//! - [`envelope`]: the `k8s\0` envelope of objects; [`media_type`]: the media types of JSON
//! - [`schema`]: the messages in protobuf and in JSON; [`to_json()`], [`JsonDeltaWriter`] and
//!   [`from_json()`] transcode by it
//! - [`custom_resource`]: custom resources, which have no schema and are stored as JSON
//! - [`metadata`]: reads `ObjectMeta` in an encoded object and inserts its `resourceVersion`
//! - [`list`]: the heads and tails of encoded lists; [`continue_token`]: the continue tokens of
//!   pages
//! - [`list_options`]: the query parameters of a LIST or WATCH
//! - [`group_version_resource`]: a resource type and its paths; [`resource_name`]: a resource type
//!   as a user names it; [`api_resource`]: a resource type as a server describes it
//! - [`selector`]: label and field selectors; [`shard_selector`]: shard selectors (ranges of a
//!   hash)
//! - [`mod@status`]: `Status`, the body of errors
//! - `client` (feature of that name): connections to a Kubernetes API, credentials, kubeconfig
//! - [`quantity`], [`mod@hash`], [`mod@time`] and [`mod@duration`]: `resource.Quantity`, FNV-1a,
//!   RFC 3339, Go's durations

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
pub mod media_type;
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
