//! One watch event on the wire.
//!
//! JSON: `{"type":…,"object":…}` and a newline. Protobuf: four bytes of length, then a `WatchEvent` in its
//! envelope, which holds the object in an envelope of its own.

use bytes::Bytes;
use kube_api::protobuf::{bytes_field_len, put_bytes, put_bytes_header};
use kube_api::{Status, envelope, from_json, to_json};
use serde_json::json;

use super::out::Out;
use crate::kube::cache::event::{Dispatched, EventType};
use crate::kube::media::Encoding;
use crate::kube::object::Object;
use crate::kube::resource::Resource;

/// Marks the bookmark behind the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Writes events of one resource in one media type.
#[derive(Debug, Clone)]
pub struct EventEncoder {
    resource: &'static Resource,
    encoding: Encoding,
    /// `"kind":…,"apiVersion":…` of every JSON object.
    head: String,
}

impl EventEncoder {
    /// For a resource's events in this encoding.
    pub fn new(resource: &'static Resource, encoding: Encoding) -> Self {
        Self {
            resource,
            encoding,
            head: resource.json_head(),
        }
    }

    /// The media type of the whole answer.
    pub fn media_type(&self) -> &'static str {
        match self.encoding {
            Encoding::Json => Encoding::Json.media_type(),
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    pub(crate) fn resource(&self) -> &'static Resource {
        self.resource
    }

    /// Room for a piece that will be full of events.
    pub(super) fn many(&self) -> Out {
        match self.encoding {
            Encoding::Json => Out::with_text_room(),
            // Most objects are pointed at.
            Encoding::Protobuf => Out::new(),
        }
    }

    /// Appends an event with this object. One that does not encode is left out, so that the others arrive.
    pub(super) fn event(&self, out: &mut Out, event_type: EventType, object: &Object) {
        match self.encoding {
            Encoding::Json => self.json_event(out.text(), event_type, object),
            Encoding::Protobuf => {
                let resource = self.resource;
                let kind = (resource.api_version, resource.kind);
                let raw = object.encoded_bytes();
                put_protobuf_head(out.text(), event_type.as_str(), kind, raw.len());
                out.shared(raw);
                out.text().extend_from_slice(PROTOBUF_TAIL);
            }
        }
    }

    /// The encoding of a live event, made once for all who watch in this media type.
    pub fn shared(&self, event: &Dispatched, event_type: EventType, made: impl FnOnce()) -> Bytes {
        let form = event_type as u32 + 4 * (self.encoding as u32);
        event.encoded(form, || {
            made();
            let mut out = Vec::new();
            if let Some(object) = event.event().object(event_type) {
                match self.encoding {
                    Encoding::Json => self.json_event(&mut out, event_type, object),
                    Encoding::Protobuf => {
                        let raw = object.encoded();
                        out.reserve_exact(raw.len() + 128);
                        self.protobuf(&mut out, event_type.as_str(), raw);
                    }
                }
            }
            Bytes::from(out)
        })
    }

    /// Appends a bookmark: an object of the kind that has a revision only.
    pub(super) fn bookmark(&self, out: &mut Out, revision: i64, initial_events_end: bool) {
        let mut bookmark = json!({"metadata": {"resourceVersion": revision.to_string()}});
        if initial_events_end {
            bookmark["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let Some(message) = self.resource.message else {
            bookmark["apiVersion"] = self.resource.api_version.into();
            bookmark["kind"] = self.resource.kind.into();
            let text = format!("{{\"type\":\"BOOKMARK\",\"object\":{bookmark}}}\n");
            out.text().extend_from_slice(text.as_bytes());
            return;
        };
        let mut raw = Vec::new();
        let fields = bookmark.as_object().expect("built as an object");
        from_json(message, fields, &mut raw).expect("every kind has metadata");
        match self.encoding {
            Encoding::Protobuf => self.protobuf(out.text(), "BOOKMARK", &raw),
            Encoding::Json => {
                let text = out.text();
                text.extend_from_slice(br#"{"type":"BOOKMARK","object":"#);
                to_json(message, &raw, &self.head, text).expect("written by from_json");
                text.extend_from_slice(b"}\n");
            }
        }
    }

    /// Appends an error, behind which nothing comes.
    pub(super) fn error(&self, out: &mut Out, status: &Status) {
        match self.encoding {
            Encoding::Json => {
                let text = out.text();
                text.extend_from_slice(br#"{"type":"ERROR","object":"#);
                text.extend_from_slice(status.json().trim_ascii_end());
                text.extend_from_slice(b"}\n");
            }
            Encoding::Protobuf => {
                let sealed = status.protobuf();
                let raw = envelope::open(&sealed).expect("sealed just now");
                put_protobuf_head(out.text(), "ERROR", ("v1", "Status"), raw.len());
                out.text().extend_from_slice(raw);
                out.text().extend_from_slice(PROTOBUF_TAIL);
            }
        }
    }

    fn json_event(&self, out: &mut Vec<u8>, event_type: EventType, object: &Object) {
        let before = out.len();
        out.extend_from_slice(br#"{"type":""#);
        out.extend_from_slice(event_type.as_str().as_bytes());
        out.extend_from_slice(br#"","object":"#);
        if let Err(error) = self.resource.put_json(object.encoded(), &self.head, out) {
            let key = object.key().escape_ascii();
            tracing::warn!("{key} is left out of a watch: {error}");
            out.truncate(before);
            return;
        }
        out.extend_from_slice(b"}\n");
    }

    fn protobuf(&self, out: &mut Vec<u8>, event_type: &str, raw: &[u8]) {
        let kind = (self.resource.api_version, self.resource.kind);
        put_protobuf_head(out, event_type, kind, raw.len());
        out.extend_from_slice(raw);
        out.extend_from_slice(PROTOBUF_TAIL);
    }
}

/// The ends of the object's envelope and of the event's.
const PROTOBUF_TAIL: &[u8] = &[0x1a, 0x00, 0x22, 0x00, 0x1a, 0x00, 0x22, 0x00];

/// Everything of a protobuf frame that stands before an object of `raw_len` bytes; `kind` is its API version
/// and kind.
fn put_protobuf_head(out: &mut Vec<u8>, event_type: &str, kind: (&str, &str), raw_len: usize) {
    let sealed = envelope::sealed_len(kind.0, kind.1, raw_len);
    let extension = bytes_field_len(1, sealed);
    let event = bytes_field_len(1, event_type.len()) + bytes_field_len(2, extension);
    let frame = envelope::sealed_len("v1", "WatchEvent", event);
    out.extend_from_slice(&(frame as u32).to_be_bytes());
    envelope::put_head(out, "v1", "WatchEvent", event);
    put_bytes(out, 1, event_type.as_bytes());
    put_bytes_header(out, 2, extension);
    put_bytes_header(out, 1, sealed);
    envelope::put_head(out, kind.0, kind.1, raw_len);
}
