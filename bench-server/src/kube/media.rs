//! Which encoding a client accepts.

use kube_api::{Status, envelope};

/// Encodings of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

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

    /// The first alternative of an `Accept` header that can be served; `None` when there is none. Weights are
    /// not read (as upstream does not); alternatives that want another shape (`as=Table`) are passed over, and
    /// kubectl then takes its plain `application/json`.
    pub fn accepted(accept: &str) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::Json);
        }
        accept.split(',').find_map(|alternative| {
            let mut parts = alternative.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            if parts.any(|parameter| parameter.starts_with("as=")) {
                return None;
            }
            match media_type {
                "application/json" | "application/*" | "*/*" => Some(Self::Json),
                envelope::MEDIA_TYPE => Some(Self::Protobuf),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_real_clients() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (accept, encoding) in [
            ("", Some(Encoding::Json)),
            ("*/*", Some(Encoding::Json)),
            ("application/json, */*", Some(Encoding::Json)),
            (
                "application/vnd.kubernetes.protobuf",
                Some(Encoding::Protobuf),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Encoding::Protobuf),
            ),
            (
                "application/vnd.kubernetes.protobuf;stream=watch",
                Some(Encoding::Protobuf),
            ),
            (table, Some(Encoding::Json)),
            ("application/yaml", None),
            ("text/html, application/json;as=Table;v=v1", None),
        ] {
            assert_eq!(Encoding::accepted(accept), encoding, "{accept:?}");
        }
    }
}
