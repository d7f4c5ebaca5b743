//! Content negotiation: chooses the media type of a response by the header `Accept`.

use std::cmp::Reverse;

use kube_api::envelope;

use crate::resource::Resource;
use crate::resource::media_type::{
    DEFAULT_MEDIA_TYPE, Encoding, META_V1, META_V1_BETA1, MediaType, ResponseKind,
};

/// Returns the best alternative of an `Accept` header that can be served: the one with the highest
/// weight; among equal weights, one without a wildcard; among those, the first in the header.
/// `None` if no alternative can be served. Custom resources (without a schema) are not served in
/// protobuf, but their partial metadata is.
pub(crate) fn negotiate(accept: &str, resource: &Resource) -> Option<MediaType> {
    if accept.trim().is_empty() {
        return Some(DEFAULT_MEDIA_TYPE);
    }
    let mut alternatives: Vec<_> = accept.split(',').map(Alternative::read).collect();
    alternatives.sort_by_key(|alternative| {
        (
            Reverse(alternative.weight),
            alternative.type_name.contains('*'),
        )
    });
    alternatives
        .iter()
        .find_map(|alternative| alternative.serve(resource.message.is_some()))
}

/// Returns whether Go's `strconv.ParseBool` parses `text` as true.
pub(crate) fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

struct Alternative<'a> {
    type_name: &'a str,
    /// The weight (`q`), in thousandths.
    weight: u32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Alternative<'a> {
    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let type_name = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .collect();
        let weight = parameters
            .iter()
            .find(|(name, _)| *name == "q")
            .and_then(|(_, value)| value.parse::<f32>().ok())
            .map_or(1000, |weight| (weight.clamp(0.0, 1.0) * 1000.0) as u32);
        Self {
            type_name,
            weight,
            parameters,
        }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut parameters = self.parameters.iter();
        parameters
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    }

    fn serve(&self, has_protobuf: bool) -> Option<MediaType> {
        let encoding = match self.type_name {
            "application/json" | "application/*" | "*/*" => Encoding::Json,
            envelope::MEDIA_TYPE => Encoding::Protobuf,
            _ => return None,
        };
        if self
            .parameter("charset")
            .is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8"))
        {
            return None;
        }
        let api_version = match (self.parameter("g"), self.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => META_V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => META_V1_BETA1,
            _ => "",
        };
        let kind = match (self.parameter("as"), encoding) {
            (None, Encoding::Protobuf) if !has_protobuf => return None,
            (None, _) => ResponseKind::Object,
            (Some(_), _) if api_version.is_empty() => return None,
            (Some("Table"), Encoding::Json) => ResponseKind::Table,
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), _) => {
                ResponseKind::PartialMetadata
            }
            (Some(_), _) => return None,
        };
        Some(MediaType {
            encoding,
            kind,
            api_version: if api_version.is_empty() {
                META_V1
            } else {
                api_version
            },
            pretty: self.parameter("pretty").is_some_and(is_true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::RESOURCES;

    fn media(accept: &str, resource: &str) -> Option<(Encoding, ResponseKind, &'static str)> {
        let mut resources = RESOURCES.iter();
        let resource = resources.find(|candidate| candidate.name == resource);
        negotiate(accept, resource.expect("served"))
            .map(|media| (media.encoding, media.kind, media.api_version))
    }

    #[test]
    fn headers_of_real_clients() {
        let json = Some((Encoding::Json, ResponseKind::Object, META_V1));
        let protobuf = Some((Encoding::Protobuf, ResponseKind::Object, META_V1));
        let partial = |encoding| Some((encoding, ResponseKind::PartialMetadata, META_V1));
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (accept, expected) in [
            ("", json),
            ("*/*", json),
            ("application/json, */*", json),
            ("application/vnd.kubernetes.protobuf", protobuf),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                protobuf,
            ),
            ("application/vnd.kubernetes.protobuf;stream=watch", protobuf),
            (
                "application/json;q=0.5,application/vnd.kubernetes.protobuf",
                protobuf,
            ),
            ("*/*,application/vnd.kubernetes.protobuf", protobuf),
            ("text/html, image/gif, *; q=.2, */*; q=.2", json),
            (table, Some((Encoding::Json, ResponseKind::Table, META_V1))),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                Some((Encoding::Json, ResponseKind::Table, META_V1_BETA1)),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                partial(Encoding::Protobuf),
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                partial(Encoding::Json),
            ),
            // An alternative that cannot be served is skipped.
            (
                "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
                json,
            ),
            (
                "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
                json,
            ),
            ("application/yaml", None),
            ("text/html, application/json;as=Table;v=v1", None),
            ("application/json;charset=latin1", None),
        ] {
            assert_eq!(media(accept, "pods"), expected, "{accept:?}");
        }
        assert_eq!(
            media("application/vnd.kubernetes.protobuf", "widgets"),
            None
        );
        assert_eq!(
            media(
                "application/vnd.kubernetes.protobuf,application/json",
                "widgets"
            ),
            json
        );
        assert_eq!(
            media(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "widgets"
            ),
            partial(Encoding::Protobuf)
        );
    }
}
