//! Media types of responses: an encoding, and what objects are turned into.

use kube_api::{Status, envelope};

/// Encodings of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// What objects and lists are turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponseKind {
    /// The objects as they are.
    Object,
    /// `PartialObjectMetadata` and lists of them.
    PartialMetadata,
    /// `Table`: rows of printed columns. JSON only.
    Table,
}

/// One alternative of an `Accept` header that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaType {
    /// Encoding.
    pub encoding: Encoding,
    /// Shape.
    pub kind: ResponseKind,
    /// API version of tables and partial metadata; `meta.k8s.io/v1` otherwise.
    pub api_version: &'static str,
    /// Whether the header itself asks for indented JSON.
    pub pretty: bool,
}

pub(crate) const META_V1: &str = "meta.k8s.io/v1";
pub(crate) const META_V1_BETA1: &str = "meta.k8s.io/v1beta1";

/// What is served when nothing is asked for, and what errors without a readable `Accept` are sent as.
pub const DEFAULT_MEDIA_TYPE: MediaType = MediaType {
    encoding: Encoding::Json,
    kind: ResponseKind::Object,
    api_version: META_V1,
    pretty: false,
};

impl Encoding {
    /// Media types that can be asked for.
    pub const MEDIA_TYPES: [&str; 2] = ["application/json", envelope::MEDIA_TYPE];

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => Self::MEDIA_TYPES[0],
            Self::Protobuf => Self::MEDIA_TYPES[1],
        }
    }

    /// A Status in it.
    pub fn status(self, status: &Status) -> Vec<u8> {
        match self {
            Self::Json => status.json(),
            Self::Protobuf => status.protobuf(),
        }
    }
}
