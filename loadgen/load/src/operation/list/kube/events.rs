//! Validates a watch that begins with the initial state (KEP-3157): synthetic ADDED events, then
//! the bookmark that ends them.
//!
//! In protobuf, events are frames ([`super::frames`]). In JSON, they are lines.

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;
use workloads::scenario::Media;

use super::frames::{
    ERROR, EXPIRED, Event, Frames, INITIAL_EVENTS_END, LONGEST_FRAME, STATUS, bookmark_revision,
    check_live, unexpected,
};
use super::stored_bytes::ItemDecoder;
use crate::verify::{Check, InvalidResponse, malformed};

/// Validates the initial state of one watch.
#[derive(Debug)]
pub(super) struct EventValidator {
    media: Media,
    frames: Frames,
    line: Vec<u8>,
    /// The type fields with which each object of the initial state begins, in JSON.
    head: String,
    decoder: ItemDecoder,
    /// The number of objects so far.
    pub(super) items: u64,
    /// The revision of the bookmark that ends the initial state, once it has arrived.
    pub(super) end: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    r#type: &'l str,
    #[serde(borrow)]
    object: &'l RawValue,
}

/// The fields that are read of an object that does not belong to the initial state: a bookmark, a
/// Status, or a later change.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Other {
    kind: String,
    api_version: String,
    #[serde(default)]
    metadata: OtherMeta,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OtherMeta {
    name: String,
    resource_version: String,
    annotations: std::collections::BTreeMap<String, String>,
}

impl EventValidator {
    /// Returns a validator of a watch whose objects are restored to their stored bytes by
    /// `decoder`.
    pub(super) fn new(media: Media, decoder: ItemDecoder) -> Self {
        Self {
            media,
            frames: Frames::default(),
            line: Vec::new(),
            head: decoder.type_meta(),
            decoder,
            items: 0,
            end: None,
        }
    }

    /// Reads the next bytes of the stream. What follows [`Self::end`] is not part of the initial
    /// state, but must not be older: a later change, or a bookmark that became due while a slow
    /// reader was reading.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        check: Option<&mut Check>,
    ) -> Result<(), InvalidResponse> {
        match self.media {
            Media::Protobuf => self.frames(bytes, check),
            Media::Json => self.lines(bytes, check),
        }
    }

    fn frames(
        &mut self,
        bytes: &[u8],
        mut check: Option<&mut Check>,
    ) -> Result<(), InvalidResponse> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.feed(bytes, |frame| self.frame(frame, check.as_deref_mut()))?;
        self.frames = frames;
        Ok(())
    }

    fn frame(&mut self, frame: &[u8], check: Option<&mut Check>) -> Result<(), InvalidResponse> {
        let event = Event::read(frame, self.decoder.resource())?;
        if let Some(end) = self.end {
            return event.check_live(end);
        }
        match event.kind {
            b"ADDED" => {
                self.items += 1;
                match check {
                    Some(_) => self.decoder.protobuf(event.object, check),
                    None => Ok(()),
                }
            }
            b"BOOKMARK" => {
                let (revision, annotated) = event.bookmark()?;
                self.bookmark(revision, annotated)
            }
            _ => Err(event.unexpected()),
        }
    }

    fn lines(
        &mut self,
        bytes: &[u8],
        mut check: Option<&mut Check>,
    ) -> Result<(), InvalidResponse> {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            if self.line.is_empty() {
                self.one_line(&rest[..end], check.as_deref_mut())?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&rest[..end]);
                self.one_line(&line, check.as_deref_mut())?;
                line.clear();
                self.line = line;
            }
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LONGEST_FRAME {
            return Err(malformed("an event of impossible length"));
        }
        Ok(())
    }

    fn one_line(&mut self, line: &[u8], check: Option<&mut Check>) -> Result<(), InvalidResponse> {
        const ADDED: &[u8] = b"{\"type\":\"ADDED\",\"object\":";
        // Nearly every line has this form, and is parsed no further than needed.
        if self.end.is_none()
            && let Some(rest) = line.strip_prefix(ADDED)
        {
            self.items += 1;
            return match (check, rest.strip_suffix(b"}")) {
                (Some(check), Some(object)) => self.decoder.json(object, &self.head, check),
                (None, Some(_)) => Ok(()),
                (_, None) => Err(malformed("a line that is no event")),
            };
        }
        let bad = |e: serde_json::Error| malformed(&format!("an event: {e}"));
        let event: Line<'_> = serde_json::from_slice(line).map_err(bad)?;
        let object: Other = serde_json::from_str(event.object.get()).map_err(bad)?;
        let kind = event.r#type.as_bytes();
        let resource = self.decoder.resource();
        let object_type = match kind {
            ERROR => STATUS,
            _ => (resource.name.api_version(), resource.kind.as_str()),
        };
        if (object.api_version.as_str(), object.kind.as_str()) != object_type {
            let Other {
                kind, api_version, ..
            } = object;
            let why = format!("an event with a {kind} of {api_version}");
            return Err(malformed(&why));
        }
        let version = &object.metadata.resource_version;
        if let Some(end) = self.end {
            return check_live(kind, version, end);
        }
        if kind == ERROR && object.reason == EXPIRED {
            return Err(InvalidResponse::Expired(object.message));
        }
        if kind != b"BOOKMARK" || !object.metadata.name.is_empty() {
            return Err(unexpected(kind, event.object.get()));
        }
        let mark = object.metadata.annotations.get(INITIAL_EVENTS_END);
        let annotated = mark.is_some_and(|mark| mark == "true");
        self.bookmark(bookmark_revision(version)?, annotated)
    }

    fn bookmark(&mut self, revision: i64, annotated: bool) -> Result<(), InvalidResponse> {
        if !annotated {
            return Err(malformed("a bookmark before the one that ends the state"));
        }
        self.end = Some(revision);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kube_api::envelope;
    use kube_api::metadata::{item_object, list_item};
    use kube_api::protobuf::put_bytes;
    use kube_api::schema::POD;
    use kube_api::{ApiResource, to_json};
    use workloads::{DataSet, DataSetSpec, Fingerprint, Kind};

    use super::*;
    use crate::verify::Contents;
    use crate::verify::Listed;

    const ROOT: &str = "/registry/";

    fn pods() -> ApiResource {
        ApiResource::core("pods", "Pod")
    }

    fn data() -> DataSet {
        DataSet::new(&DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: 3.try_into().expect("some"),
            object_size: None,
            object_sizes: None,
            namespaces: 2.try_into().ok(),
            nodes: 2.try_into().ok(),
            seed: 1,
        })
    }

    /// Returns one frame with an object without envelope.
    fn frame(media: Media, kind: &str, object: &[u8]) -> Vec<u8> {
        if media == Media::Json {
            let mut json = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
            to_json(
                &POD,
                object,
                "\"kind\":\"Pod\",\"apiVersion\":\"v1\"",
                &mut json,
            )
            .expect("a pod");
            json.extend(b"}\n");
            return json;
        }
        let mut raw = Vec::new();
        put_bytes(&mut raw, 1, &envelope::seal("v1", "Pod", object));
        let mut event = Vec::new();
        put_bytes(&mut event, 1, kind.as_bytes());
        put_bytes(&mut event, 2, &raw);
        let mut frame = u32::try_from(event.len())
            .expect("small")
            .to_be_bytes()
            .to_vec();
        frame.extend(event);
        frame
    }

    fn added(media: Media, data: &DataSet, i: u64) -> Vec<u8> {
        added_at(media, data, i, "55")
    }

    fn added_at(media: Media, data: &DataSet, i: u64, version: &str) -> Vec<u8> {
        let stored = data.value(i);
        let object = envelope::open(&stored).expect("sealed");
        let item = list_item(object, version).expect("an object");
        frame(media, "ADDED", item_object(&item))
    }

    fn bookmark(media: Media, revision: &str, annotated: bool) -> Vec<u8> {
        let mut meta = Vec::new();
        put_bytes(&mut meta, 6, revision.as_bytes());
        if annotated {
            let mut entry = Vec::new();
            put_bytes(&mut entry, 1, INITIAL_EVENTS_END.as_bytes());
            put_bytes(&mut entry, 2, b"true");
            put_bytes(&mut meta, 12, &entry);
        }
        let mut pod = Vec::new();
        put_bytes(&mut pod, 1, &meta);
        put_bytes(&mut pod, 2, b"");
        put_bytes(&mut pod, 3, b"");
        frame(media, "BOOKMARK", &pod)
    }

    fn validated(
        media: Media,
        parts: &[Vec<u8>],
        cut: usize,
    ) -> Result<(Option<i64>, Fingerprint), InvalidResponse> {
        let (end, found) = walk_all(media, parts, cut)?;
        Ok((end, found.fingerprint))
    }

    fn walk_all(
        media: Media,
        parts: &[Vec<u8>],
        cut: usize,
    ) -> Result<(Option<i64>, Contents), InvalidResponse> {
        let bytes = parts.concat();
        let mut validator = EventValidator::new(media, ItemDecoder::one_by_one(&pods()));
        let mut check = Check::new(ROOT);
        validator.feed(&bytes[..cut], Some(&mut check))?;
        validator.feed(&bytes[cut..], Some(&mut check))?;
        let listed = Listed {
            revision: validator.end.unwrap_or(i64::MAX),
            ..Listed::default()
        };
        Ok((validator.end, check.finish(&listed, None)?))
    }

    #[test]
    fn the_state_is_what_was_stored_wherever_frames_are_cut() {
        let data = data();
        for media in [Media::Protobuf, Media::Json] {
            let mut parts: Vec<_> = (0..3).map(|i| added(media, &data, i)).collect();
            parts.push(bookmark(media, "77", true));
            let len = parts.concat().len();
            for cut in (0..len).step_by(211) {
                let (end, fingerprint) = validated(media, &parts, cut).expect("a state");
                assert_eq!((end, fingerprint), (Some(77), data.fingerprint(0..3)));
            }
        }
    }

    /// Tests a known text, followed by something else, in its event.
    #[test]
    fn nothing_may_stand_behind_a_known_object() {
        let data = data();
        let item_cache = crate::operation::list::kube::item_cache::ItemCache::default();
        let one = added(Media::Json, &data, 0);
        for (line, passes) in [
            (one.clone(), true),
            ([&one[..one.len() - 2], b"garbage}\n"].concat(), false),
            ([&one[..one.len() - 2], b",\"more\":1}\n"].concat(), false),
            ([&one[..one.len() - 1], b" \n"].concat(), false),
            (one, true),
        ] {
            let decoder = ItemDecoder::new(ROOT, &pods(), item_cache.clone());
            let mut validator = EventValidator::new(Media::Json, decoder);
            let fed = validator.feed(&line, Some(&mut Check::new(ROOT)));
            assert_eq!(fed.is_ok(), passes, "{fed:?}");
        }
    }

    /// Flips all bytes of an event's head and every seventh after it, in both encodings: another
    /// event is another object, or none.
    #[test]
    fn a_flipped_byte_never_passes_as_the_same_state() {
        let data = data();
        for media in [Media::Protobuf, Media::Json] {
            let parts = [added(media, &data, 0), bookmark(media, "77", true)];
            let whole = walk_all(media, &parts, 0).expect("a state");
            // The other fields of a bookmark have no meaning.
            for at in (0..200).chain((200..parts[0].len()).step_by(7)) {
                let mut flipped = parts.clone();
                flipped[0][at] ^= 1;
                let found = walk_all(media, &flipped, 0).ok();
                assert_ne!(found, Some(whole.clone()), "{media:?} byte {at}");
            }
        }
    }

    #[test]
    fn a_watch_that_is_too_old_says_so() {
        let status = envelope_status();
        let json = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}"#;
        let json = [&json[..], b"\n"].concat();
        for (media, line) in [(Media::Protobuf, status), (Media::Json, json)] {
            let expired = validated(media, &[line], 0);
            assert_eq!(expired, Err(InvalidResponse::Expired("too old".to_owned())));
        }
    }

    fn envelope_status() -> Vec<u8> {
        let mut status = Vec::new();
        put_bytes(&mut status, 1, b"");
        put_bytes(&mut status, 2, b"Failure");
        put_bytes(&mut status, 3, b"too old");
        put_bytes(&mut status, 4, b"Expired");
        let mut raw = Vec::new();
        put_bytes(&mut raw, 1, &envelope::seal("v1", "Status", &status));
        let mut event = Vec::new();
        put_bytes(&mut event, 1, b"ERROR");
        put_bytes(&mut event, 2, &raw);
        let len = u32::try_from(event.len()).expect("small");
        [&len.to_be_bytes()[..], &event].concat()
    }

    #[test]
    fn whatever_breaks_the_contract_of_the_state_is_wrong() {
        let data = data();
        for media in [Media::Protobuf, Media::Json] {
            let pod = |i| added(media, &data, i);
            let (end, plain) = (bookmark(media, "77", true), bookmark(media, "77", false));
            let swapped = validated(media, &[pod(1), pod(0), end.clone()], 0);
            assert!(
                matches!(swapped, Err(InvalidResponse::Order { .. })),
                "{swapped:?}"
            );
            let repeated = validated(media, &[pod(0), pod(0), end.clone()], 0);
            assert!(
                matches!(repeated, Err(InvalidResponse::Order { .. })),
                "{repeated:?}"
            );
            assert!(
                validated(media, &[pod(0), plain], 0).is_err(),
                "a bookmark too early"
            );
            // The watch continues after its initial state.
            let newer = added_at(media, &data, 1, "79");
            let live = [pod(0), end.clone(), bookmark(media, "78", false), newer];
            let (at, state) = validated(media, &live, 0).expect("a state");
            assert_eq!((at, state), (Some(77), data.fingerprint(0..1)));
            let behind = validated(media, &[pod(0), end.clone(), pod(1)], 0);
            assert!(behind.is_err(), "an object of the state behind its end");
            let old = validated(media, &[pod(0), bookmark(media, "54", true)], 0);
            assert!(
                matches!(old, Err(InvalidResponse::Revision { .. })),
                "{old:?}"
            );
            let deleted = frame(
                media,
                "DELETED",
                envelope::open(&data.value(0)).expect("sealed"),
            );
            assert!(validated(media, &[deleted], 0).is_err(), "no other event");
        }
    }
}
