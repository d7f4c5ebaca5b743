//! Encodes the events of a watch.
//!
//! In JSON, an event is `{"type":…,"object":…}` and a newline. In protobuf, it is four bytes of
//! length, then a `WatchEvent` without an envelope, as apimachinery's raw serializer writes it; the
//! `WatchEvent` contains the object in an envelope. Only the first table of a watch defines the
//! columns.

use bytes::Bytes;
use kube_api::protobuf::{bytes_field_len, put_bytes, put_bytes_header};
use kube_api::{JsonDeltaWriter, Status, ToJsonError, envelope, from_json};
use serde_json::json;

use super::event_buffer::EventBuffer;
use crate::cache::event::{CachingEvent, EventType};
use crate::resource::Resource;
use crate::resource::media_type::{Encoding, ResponseKind};
use crate::resource::object::Object;
use crate::resource::representation::Representation;

/// The annotation of the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An encoder of the events of one watch.
#[derive(Debug)]
pub struct EventEncoder {
    resource: &'static Resource,
    representation: Representation,
    /// The `"kind":…,"apiVersion":…` of every whole object in JSON.
    head: String,
    /// Whether the next table has to define the columns.
    columns: bool,
    /// The encoder of consecutive whole objects in JSON, during the initial events.
    series: Option<Box<JsonDeltaWriter>>,
}

impl EventEncoder {
    /// Returns an encoder for a watch of a resource.
    pub fn new(resource: &'static Resource, representation: Representation) -> Self {
        Self {
            resource,
            representation,
            head: resource.json_head(),
            columns: representation.kind == ResponseKind::Table,
            series: None,
        }
    }

    /// Returns whether initial events are copies of their objects, instead of references.
    pub(super) fn copies(&self) -> bool {
        (self.representation.encoding, self.representation.kind)
            != (Encoding::Protobuf, ResponseKind::Object)
    }

    /// Returns the media type of the response.
    pub fn media_type(&self) -> &'static str {
        match self.representation.encoding {
            Encoding::Json => Encoding::Json.media_type(),
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    pub(crate) fn resource(&self) -> &'static Resource {
        self.resource
    }

    /// Returns a buffer for a chunk of initial events, whose objects are in key order.
    pub(super) fn initial_buffer(&mut self) -> EventBuffer {
        match self.representation.encoding {
            Encoding::Json => {
                if let (ResponseKind::Object, Some(message)) =
                    (self.representation.kind, self.resource.message)
                {
                    let series = || Box::new(JsonDeltaWriter::new(message, self.head.as_str()));
                    self.series.get_or_insert_with(series);
                }
                EventBuffer::with_text_room()
            }
            // Most objects are shared, not copied.
            Encoding::Protobuf => EventBuffer::new(),
        }
    }

    /// Frees the memory that only initial events need.
    pub(super) fn end_initial_events(&mut self) {
        self.series = None;
    }

    /// Appends an event. An object that cannot be converted is omitted, so that the others are
    /// still sent.
    pub(super) fn event(&mut self, out: &mut EventBuffer, event_type: EventType, object: &Object) {
        if (self.representation.encoding, self.representation.kind)
            == (Encoding::Protobuf, ResponseKind::Object)
        {
            let (api_version, kind) = (self.resource.api_version, self.resource.kind);
            let raw = object.encoded_slice();
            let sealed = envelope::sealed_len(api_version, kind, raw.len());
            put_event_head(out.text(), event_type.as_str(), sealed);
            envelope::put_head(out.text(), api_version, kind, raw.len());
            out.part(raw);
            out.text().extend_from_slice(envelope::TAIL);
            return;
        }
        let columns = std::mem::take(&mut self.columns);
        let mut series = self.series.take();
        let event_type = event_type.as_str();
        self.put(
            out.text(),
            event_type,
            object,
            columns,
            series.as_deref_mut(),
        );
        self.series = series;
    }

    /// Returns the encoding of a live event, which is made once for all watches in the same
    /// representation. The first table of a watch, which defines the columns, is encoded for that
    /// watch alone.
    pub fn shared(
        &mut self,
        event: &CachingEvent,
        event_type: EventType,
        made: impl FnOnce(),
    ) -> Bytes {
        let columns = std::mem::take(&mut self.columns);
        let make = || {
            made();
            let mut out = Vec::new();
            if let Some(object) = event.event().object(event_type) {
                self.put(&mut out, event_type.as_str(), object, columns, None);
            }
            Bytes::from(out)
        };
        match columns {
            true => make(),
            false => event.encoded((self.representation, event_type), make),
        }
    }

    /// Appends a bookmark: an object of the resource's kind with nothing but a revision, and an
    /// annotation if `initial_events_end`.
    pub(super) fn bookmark(
        &mut self,
        out: &mut EventBuffer,
        revision: i64,
        initial_events_end: bool,
    ) {
        let mut bookmark = json!({"metadata": {}});
        if initial_events_end {
            bookmark["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let stored = match self.resource.message {
            Some(message) => {
                let mut raw = Vec::new();
                let fields = bookmark.as_object().expect("the bookmark is an object");
                from_json(message, fields, &mut raw).expect("every kind has metadata");
                envelope::seal(self.resource.api_version, self.resource.kind, &raw)
            }
            None => {
                bookmark["apiVersion"] = self.resource.api_version.into();
                bookmark["kind"] = self.resource.kind.into();
                bookmark.to_string().into_bytes()
            }
        };
        let object = Object::decode(self.resource, b"", &stored, revision);
        let object = object.expect("the bookmark is an object");
        let columns = std::mem::take(&mut self.columns);
        self.put(out.text(), "BOOKMARK", &object, columns, None);
    }

    /// Appends an ERROR event, which must be the last one.
    pub(super) fn error(&self, out: &mut EventBuffer, status: &Status) {
        let text = out.text();
        match self.representation.encoding {
            Encoding::Json => {
                put_json_head(text, "ERROR");
                text.extend_from_slice(status.json().trim_ascii_end());
                text.extend_from_slice(b"}\n");
            }
            Encoding::Protobuf => put_protobuf(text, "ERROR", &status.protobuf()),
        }
    }

    fn put(
        &self,
        out: &mut Vec<u8>,
        event_type: &str,
        object: &Object,
        columns: bool,
        series: Option<&mut JsonDeltaWriter>,
    ) {
        let before = out.len();
        if let Err(error) = self.try_put(out, event_type, object, columns, series) {
            let key = object.key().escape_ascii();
            let name = self.resource.name;
            tracing::warn!("{name} {key} cannot be encoded and is left out of a watch: {error}");
            out.truncate(before);
        }
    }

    fn try_put(
        &self,
        out: &mut Vec<u8>,
        event_type: &str,
        object: &Object,
        columns: bool,
        series: Option<&mut JsonDeltaWriter>,
    ) -> Result<(), ToJsonError> {
        match (self.representation.encoding, self.representation.kind) {
            (Encoding::Protobuf, _) => {
                let mut sealed = Vec::new();
                self.representation
                    .put_object(self.resource, object, columns, &mut sealed)?;
                put_protobuf(out, event_type, &sealed);
                return Ok(());
            }
            (Encoding::Json, ResponseKind::Object) => {
                put_json_head(out, event_type);
                match series {
                    Some(series) => series.put(object.encoded(), out)?,
                    None => self.resource.put_json(object.encoded(), &self.head, out)?,
                }
            }
            (Encoding::Json, _) => {
                put_json_head(out, event_type);
                self.representation
                    .put_object(self.resource, object, columns, out)?;
            }
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

fn put_json_head(out: &mut Vec<u8>, event_type: &str) {
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(event_type.as_bytes());
    out.extend_from_slice(br#"","object":"#);
}

/// Appends a protobuf frame that contains an object in its envelope.
fn put_protobuf(out: &mut Vec<u8>, event_type: &str, sealed: &[u8]) {
    out.reserve_exact(sealed.len() + 64);
    put_event_head(out, event_type, sealed.len());
    out.extend_from_slice(sealed);
}

/// Appends the part of a protobuf frame that precedes the `sealed_len` bytes of an object in its
/// envelope.
fn put_event_head(out: &mut Vec<u8>, event_type: &str, sealed_len: usize) {
    let extension = bytes_field_len(1, sealed_len);
    let event = bytes_field_len(1, event_type.len()) + bytes_field_len(2, extension);
    out.extend_from_slice(&(event as u32).to_be_bytes());
    put_bytes(out, 1, event_type.as_bytes());
    put_bytes_header(out, 2, extension);
    put_bytes_header(out, 1, sealed_len);
}
