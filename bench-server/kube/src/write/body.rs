//! Bodies of writes. They are read up to a limit, then parsed as an object of the kind.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube_api::{Status, envelope, to_json};
use listen::discard;
use memory::request_room::{self, Reserved};
use serde_json::{Map, Value};

use crate::resource::Resource;
use crate::storage::error::too_busy;

/// The maximum size of a body, in bytes: that of kube-apiserver (`MaxRequestBodyBytes`), which is
/// twice etcd's limit.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;

/// The media types of whole objects.
pub(crate) const MEDIA_TYPES: [&str; 2] = ["application/json", envelope::MEDIA_TYPE];

/// The body of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestBody {
    /// `Content-Type` without parameters; empty without the header.
    pub(crate) media_type: String,
    /// The bytes of the body.
    pub(crate) bytes: Bytes,
    /// Their memory, if they are many.
    pub(crate) _room: Option<Arc<Reserved>>,
}

impl RequestBody {
    /// Reads a body to its end, once there is memory for it.
    ///
    /// # Errors
    /// 413 if the body is too large, 400 if it cannot be read to its end, 429 if there is no memory
    /// for it.
    pub(crate) async fn read<B>(headers: &HeaderMap, body: B) -> Result<Self, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let media_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .unwrap_or_default();
        // A length that is not known beforehand may be any.
        let bytes = body.size_hint().upper().unwrap_or(MAX_BYTES as u64);
        let room = request_room::reserve(bytes.min(MAX_BYTES as u64)).await;
        let mut body = pin!(body);
        let Ok(room) = room else {
            discard(body).await;
            return Err(too_busy());
        };
        let room = room.map(Arc::new);
        match Limited::new(body.as_mut(), MAX_BYTES).collect().await {
            Ok(whole) => Ok(Self {
                media_type: media_type.trim().to_owned(),
                bytes: whole.to_bytes(),
                _room: room,
            }),
            Err(error) if error.is::<LengthLimitError>() => {
                // The rest is read, too: a client that is still sending when its connection is
                // closed may never see the response.
                let mut rest = Limited::new(body, MAX_BYTES);
                while let Some(Ok(_)) = rest.frame().await {}
                Err(Status::request_too_large(format!("limit is {MAX_BYTES}")))
            }
            Err(error) => Err(Status::bad_request(format!(
                "the body of the request could not be read: {error}"
            ))),
        }
    }

    /// Checks that objects of the kind can be sent in the body's media type.
    ///
    /// # Errors
    /// 415 if they cannot.
    pub(crate) fn check_media_type(&self, resource: &Resource) -> Result<(), Status> {
        match (&*self.media_type, resource.schema()) {
            ("" | "application/json", _) | (envelope::MEDIA_TYPE, Some(_)) => Ok(()),
            _ => Err(Status::unsupported_media_type(&MEDIA_TYPES)),
        }
    }

    /// Parses the body as an object, and returns the fields of its JSON, including unknown ones.
    ///
    /// # Errors
    /// 415 for a media type that is not supported for objects, 400 for a body that is not an
    /// object.
    pub(crate) fn object(&self, resource: &'static Resource) -> Result<Map<String, Value>, Status> {
        let unreadable = |error: &dyn std::fmt::Display| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {error}",
                resource.kind
            ))
        };
        match (&*self.media_type, resource.schema()) {
            ("" | "application/json", schema) => {
                // `null` is an empty object.
                let object: Map<String, Value> = serde_json::from_slice(&self.bytes)
                    .map(Option::unwrap_or_default)
                    .map_err(|error| unreadable(&error))?;
                let has_kind = object.get("kind").is_some_and(|kind| kind != "");
                match schema.is_some() || has_kind {
                    true => Ok(object),
                    false => {
                        let body = String::from_utf8_lossy(&self.bytes);
                        let beginning = shown_beginning(&self.bytes);
                        Err(unreadable(&format!(
                            "Object 'Kind' is missing in '{body}' ({beginning})"
                        )))
                    }
                }
            }
            (envelope::MEDIA_TYPE, Some(message)) => {
                let raw = envelope::open(&self.bytes).map_err(|error| unreadable(&error))?;
                let (api_version, kind) =
                    envelope::type_meta(&self.bytes).map_err(|error| unreadable(&error))?;
                let mut json = Vec::with_capacity(2 * raw.len());
                to_json(message, raw, "", &mut json).map_err(|error| unreadable(&error))?;
                let mut object: Map<String, Value> =
                    serde_json::from_slice(&json).map_err(|error| unreadable(&error))?;
                for (name, text) in [("apiVersion", api_version), ("kind", kind)] {
                    if !text.is_empty() {
                        let text = String::from_utf8_lossy(text).into_owned();
                        object.insert(name.to_owned(), text.into());
                    }
                }
                Ok(object)
            }
            _ => Err(Status::unsupported_media_type(&MEDIA_TYPES)),
        }
    }
}

/// Returns the part of a body that kube-apiserver repeats in an error (`summarizeData`).
fn shown_beginning(body: &[u8]) -> String {
    const MAX_SHOWN: usize = 30;
    let beginning = &body[..body.len().min(MAX_SHOWN)];
    let shown = match beginning {
        [] => return "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(beginning).into_owned(),
        _ => beginning.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    match body.len() > MAX_SHOWN {
        true => shown + " ...",
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn bodies_end_at_the_limit() {
        let read = |length: usize| async move {
            let body = Full::new(Bytes::from(vec![b' '; length]));
            RequestBody::read(&HeaderMap::new(), body).await
        };
        assert_eq!(read(MAX_BYTES).await.expect("fits").bytes.len(), MAX_BYTES);
        assert_eq!(read(MAX_BYTES + 1).await.expect_err("too large").code, 413);
    }
}
