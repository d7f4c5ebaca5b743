//! Walks a watch that begins with the state (KEP-3157): synthetic ADDED events, then the bookmark that ends them.
//!
//! In protobuf events are frames ([`super::frames`]), in JSON lines.

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;
use workloads::scenario::Media;

use super::frames::{
    Event, Frames, INITIAL_EVENTS_END, LONGEST_FRAME, bookmark_revision, unexpected,
};
use super::not_a_list;
use super::restore::Restore;
use crate::verify::{Check, Wrong};

/// The walk over one watch's first part.
#[derive(Debug)]
pub(super) struct EventWalker {
    media: Media,
    frames: Frames,
    line: Vec<u8>,
    restore: Restore,
    /// Objects so far.
    pub(super) items: u64,
    /// Revision of the bookmark that ends the state, once it is there.
    pub(super) end: Option<i64>,
}

#[derive(Deserialize)]
struct Line<'l> {
    r#type: &'l str,
    #[serde(borrow)]
    object: &'l RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl EventWalker {
    /// A walk over a watch whose objects are turned back by `restore`.
    pub(super) fn new(media: Media, restore: Restore) -> Self {
        Self {
            media,
            frames: Frames::default(),
            line: Vec::new(),
            restore,
            items: 0,
            end: None,
        }
    }

    /// Takes the next bytes of the stream. What follows [`Self::end`] is not part of the state and is ignored: a change made
    /// since, or a bookmark that came due while a slow reader was reading.
    pub(super) fn feed(&mut self, bytes: &[u8], check: Option<&mut Check>) -> Result<(), Wrong> {
        match self.media {
            Media::Protobuf => self.frames(bytes, check),
            Media::Json => self.lines(bytes, check),
        }
    }

    fn frames(&mut self, bytes: &[u8], mut check: Option<&mut Check>) -> Result<(), Wrong> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.feed(bytes, |frame| self.frame(frame, check.as_deref_mut()))?;
        self.frames = frames;
        Ok(())
    }

    fn frame(&mut self, frame: &[u8], check: Option<&mut Check>) -> Result<(), Wrong> {
        if self.end.is_some() {
            return Ok(());
        }
        let event = Event::read(frame)?;
        match event.kind {
            b"ADDED" => {
                self.items += 1;
                match check {
                    Some(_) => self.restore.protobuf(event.object, check),
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

    fn lines(&mut self, bytes: &[u8], mut check: Option<&mut Check>) -> Result<(), Wrong> {
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
            return Err(not_a_list("an event of impossible length"));
        }
        Ok(())
    }

    fn one_line(&mut self, line: &[u8], check: Option<&mut Check>) -> Result<(), Wrong> {
        if self.end.is_some() {
            return Ok(());
        }
        const ADDED: &[u8] = b"{\"type\":\"ADDED\",\"object\":";
        // Nearly every line: looked at no further than it must be.
        if let Some(rest) = line.strip_prefix(ADDED) {
            self.items += 1;
            return match (check, rest.strip_suffix(b"}")) {
                (Some(check), Some(object)) => self.restore.json(object, check),
                (None, Some(_)) => Ok(()),
                (_, None) => Err(not_a_list("a line that is no event")),
            };
        }
        let bad = |e: serde_json::Error| not_a_list(&format!("an event: {e}"));
        let event: Line<'_> = serde_json::from_slice(line).map_err(bad)?;
        if event.r#type != "BOOKMARK" {
            return Err(unexpected(event.r#type.as_bytes(), event.object.get()));
        }
        let Bookmark { metadata } = serde_json::from_str(event.object.get()).map_err(bad)?;
        let mark = metadata.annotations.get(INITIAL_EVENTS_END);
        let annotated = mark.is_some_and(|mark| mark == "true");
        self.bookmark(bookmark_revision(&metadata.resource_version)?, annotated)
    }

    fn bookmark(&mut self, revision: i64, annotated: bool) -> Result<(), Wrong> {
        if !annotated {
            return Err(not_a_list("a bookmark before the one that ends the state"));
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
    use kube_api::to_json;
    use workloads::{DataSet, DataSetSpec, Fingerprint, Kind};

    use super::*;
    use crate::target::list::Listed;

    const ROOT: &str = "/registry/";

    fn data() -> DataSet {
        DataSet::new(&DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: 3.try_into().expect("some"),
            object_size: None,
            namespaces: 2.try_into().ok(),
            nodes: 2.try_into().ok(),
            seed: 1,
        })
    }

    /// One frame around an object without envelope.
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
        let stored = data.value(i);
        let object = envelope::open(&stored).expect("sealed");
        let item = list_item(object, "55").expect("an object");
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

    fn walk(
        media: Media,
        parts: &[Vec<u8>],
        cut: usize,
    ) -> Result<(Option<i64>, Fingerprint), Wrong> {
        let bytes = parts.concat();
        let mut walker = EventWalker::new(media, Restore::one_by_one("pods"));
        let mut check = Check::new(ROOT);
        walker.feed(&bytes[..cut], Some(&mut check))?;
        walker.feed(&bytes[cut..], Some(&mut check))?;
        let listed = Listed {
            revision: walker.end.unwrap_or(i64::MAX),
            ..Listed::default()
        };
        Ok((walker.end, check.finish(&listed, None)?.fingerprint))
    }

    #[test]
    fn the_state_is_what_was_stored_wherever_frames_are_cut() {
        let data = data();
        for media in [Media::Protobuf, Media::Json] {
            let mut parts: Vec<_> = (0..3).map(|i| added(media, &data, i)).collect();
            parts.push(bookmark(media, "77", true));
            let len = parts.concat().len();
            for cut in (0..len).step_by(211) {
                let (end, fingerprint) = walk(media, &parts, cut).expect("a state");
                assert_eq!((end, fingerprint), (Some(77), data.fingerprint(0..3)));
            }
        }
    }

    #[test]
    fn whatever_breaks_the_contract_of_the_state_is_wrong() {
        let data = data();
        for media in [Media::Protobuf, Media::Json] {
            let pod = |i| added(media, &data, i);
            let (end, plain) = (bookmark(media, "77", true), bookmark(media, "77", false));
            let swapped = walk(media, &[pod(1), pod(0), end.clone()], 0);
            assert!(matches!(swapped, Err(Wrong::Order { .. })), "{swapped:?}");
            let repeated = walk(media, &[pod(0), pod(0), end.clone()], 0);
            assert!(matches!(repeated, Err(Wrong::Order { .. })), "{repeated:?}");
            assert!(
                walk(media, &[pod(0), plain], 0).is_err(),
                "a bookmark too early"
            );
            // The watch goes on behind its state.
            let live = [pod(0), end.clone(), bookmark(media, "78", false), pod(1)];
            let (at, state) = walk(media, &live, 0).expect("a state");
            assert_eq!((at, state), (Some(77), data.fingerprint(0..1)));
            let old = walk(media, &[pod(0), bookmark(media, "54", true)], 0);
            assert!(matches!(old, Err(Wrong::Revision { .. })), "{old:?}");
            let deleted = frame(
                media,
                "DELETED",
                envelope::open(&data.value(0)).expect("sealed"),
            );
            assert!(walk(media, &[deleted], 0).is_err(), "no other event");
        }
    }
}
