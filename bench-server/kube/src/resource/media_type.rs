//! Media types of responses: an encoding, and a kind of response.

use kube_api::{Status, envelope};

/// The encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// The kind of a response: the form of its objects (`as=` in `Accept`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponseKind {
    /// The resource's own objects.
    Object,
    /// `PartialObjectMetadata`, or a list of it.
    PartialMetadata,
    /// `Table`: rows of printed columns. JSON only.
    Table,
}

/// The media type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaType {
    /// The encoding.
    pub encoding: Encoding,
    /// The form of the objects.
    pub kind: ResponseKind,
    /// The API version of tables and partial metadata; otherwise `meta.k8s.io/v1`.
    pub api_version: &'static str,
    /// Whether `Accept` requests indented JSON.
    pub pretty: bool,
}

pub(crate) const META_V1: &str = "meta.k8s.io/v1";
pub(crate) const META_V1_BETA1: &str = "meta.k8s.io/v1beta1";

/// The default: the media type without `Accept`, and of errors if `Accept` cannot be satisfied.
pub const DEFAULT_MEDIA_TYPE: MediaType = MediaType {
    encoding: Encoding::Json,
    kind: ResponseKind::Object,
    api_version: META_V1,
    pretty: false,
};

impl Encoding {
    /// The media types that can be requested.
    pub const MEDIA_TYPES: [&str; 2] = ["application/json", envelope::MEDIA_TYPE];

    /// Returns the media type of the encoding.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => Self::MEDIA_TYPES[0],
            Self::Protobuf => Self::MEDIA_TYPES[1],
        }
    }

    /// Encodes a Status.
    pub fn status(self, status: &Status) -> Vec<u8> {
        match self {
            Self::Json => status.json(),
            Self::Protobuf => status.protobuf(),
        }
    }
}
