//! The media types of requests and responses in JSON. That of protobuf is
//! [`crate::envelope::MEDIA_TYPE`].

/// An object or a list in JSON.
pub const JSON: &str = "application/json";
/// A JSON patch (RFC 6902).
pub const JSON_PATCH: &str = "application/json-patch+json";
/// A JSON merge patch (RFC 7386).
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// A strategic merge patch, for built-in kinds.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
