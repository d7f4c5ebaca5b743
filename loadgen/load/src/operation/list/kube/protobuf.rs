//! Validates a Kubernetes list in protobuf while it streams in.
//!
//! The body is `k8s\0` and a `runtime.Unknown` whose `raw` is the list: `ListMeta`, then the items.
//! Kubernetes writes every field of both, in order, and nothing else is allowed.

use etcd_api::client::list_validator::{PartialMessage, Progress};
use kube_api::envelope;
use kube_api::protobuf::{Fields, WireValue, bytes_field_len, find_bytes, get_varint, put_bytes};

use super::frames::LONGEST_FRAME;
use super::pages::Page;
use super::stored_bytes::{ItemDecoder, Sink};
use crate::verify::{InvalidResponse, malformed};

/// The position of the next unit in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Magic,
    /// Before the envelope's type.
    Type,
    /// Before the list.
    Raw,
    /// Before the list's metadata.
    Meta {
        left: u64,
    },
    /// Before an item.
    Items {
        left: u64,
    },
    /// After the list, with the rest of [`envelope::TAIL`].
    Tail(&'static [u8]),
}

/// Validates one page. [`ProtobufValidator::next_page`] carries the order of keys over to the next
/// page.
#[derive(Debug)]
pub(super) struct ProtobufValidator {
    level: Level,
    partial: PartialMessage,
    page: Page,
    decoder: ItemDecoder,
}

impl ProtobufValidator {
    /// Returns a validator that passes each object on in its stored form.
    pub(super) fn new(decoder: ItemDecoder) -> Self {
        Self {
            level: Level::Magic,
            partial: PartialMessage::default(),
            page: Page::default(),
            decoder,
        }
    }

    /// Returns the number of items of the page so far.
    pub(super) fn items(&self) -> u64 {
        self.page.items
    }

    /// Reads the next bytes of the body.
    pub(super) fn feed(
        &mut self,
        frame: &[u8],
        mut sink: Option<&mut impl Sink>,
    ) -> Result<(), InvalidResponse> {
        self.page.bytes += frame.len() as u64;
        let mut partial = std::mem::take(&mut self.partial);
        partial.feed(frame, |input, _| self.unit(input, sink.as_deref_mut()))?;
        self.partial = partial;
        Ok(())
    }

    /// Ends a page and prepares for the next.
    pub(super) fn next_page(&mut self) -> Result<Page, InvalidResponse> {
        if self.level != Level::Tail(&[]) || !self.partial.is_empty() {
            return Err(malformed("the body is cut short"));
        }
        self.level = Level::Magic;
        Ok(std::mem::take(&mut self.page))
    }

    fn unit(
        &mut self,
        input: &[u8],
        sink: Option<&mut impl Sink>,
    ) -> Result<Progress, InvalidResponse> {
        let left = match self.level {
            Level::Magic => {
                let Some(head) = input.get(..envelope::MAGIC.len()) else {
                    return Ok(Progress::NeedMore(envelope::MAGIC.len()));
                };
                if head != envelope::MAGIC {
                    return Err(malformed("it does not begin with the protobuf magic"));
                }
                self.level = Level::Type;
                return Ok(Progress::Consumed(envelope::MAGIC.len()));
            }
            Level::Tail(left) => return self.tail(input, left),
            Level::Type | Level::Raw => u64::MAX,
            Level::Meta { left } | Level::Items { left } => left,
        };
        let Some(head) = head(input)? else {
            return Ok(Progress::NeedMore(input.len() + 1));
        };
        let wanted = match self.level {
            Level::Raw | Level::Items { .. } => 2,
            _ => 1,
        };
        if head.number != wanted || head.wire_type != LENGTH_DELIMITED {
            return Err(malformed(&format!(
                "field {} of wire type {} where field {wanted} should be, behind {} items",
                head.number, head.wire_type, self.page.items
            )));
        }
        if self.level == Level::Raw {
            let left = head.payload as u64;
            self.level = Level::Meta { left };
            return Ok(Progress::Consumed(head.len));
        }
        let len = head.len + head.payload;
        if len as u64 > left {
            return Err(malformed("a field reaches beyond the list"));
        }
        if len > LONGEST_FRAME {
            return Err(malformed("a field longer than any object"));
        }
        let Some(unit) = input.get(..len) else {
            return Ok(Progress::NeedMore(len));
        };
        let payload = &unit[head.len..];
        self.level = match self.level {
            Level::Type => {
                self.check_type(payload)?;
                Level::Raw
            }
            Level::Meta { left } => {
                self.list_meta(payload)?;
                items_level(left - len as u64)
            }
            Level::Items { left } => {
                self.page.items += 1;
                self.decoder.protobuf(payload, sink)?;
                items_level(left - len as u64)
            }
            level => level,
        };
        Ok(Progress::Consumed(len))
    }

    fn tail(&mut self, input: &[u8], left: &'static [u8]) -> Result<Progress, InvalidResponse> {
        let len = input.len().min(left.len());
        if len == 0 || input[..len] != left[..len] {
            return Err(malformed("something stands behind its end"));
        }
        self.level = Level::Tail(&left[len..]);
        Ok(Progress::Consumed(len))
    }

    fn check_type(&self, found: &[u8]) -> Result<(), InvalidResponse> {
        let resource = self.decoder.resource();
        let (api_version, kind) = (resource.name.api_version(), &resource.list_kind);
        let mut wanted = Vec::new();
        put_bytes(&mut wanted, 1, api_version.as_bytes());
        put_bytes(&mut wanted, 2, kind.as_bytes());
        if found == wanted {
            return Ok(());
        }
        let found = found.escape_ascii();
        Err(malformed(&format!(
            "its type is {found}, and {kind} of {api_version} was asked for"
        )))
    }

    fn list_meta(&mut self, meta: &[u8]) -> Result<(), InvalidResponse> {
        let bad = |e: &dyn std::fmt::Display| malformed(&format!("its metadata: {e}"));
        let mut last = 0;
        for field in Fields::new(meta) {
            let field = field.map_err(|e| bad(&e))?;
            if field.number <= last {
                return Err(bad(&"fields out of order"));
            }
            last = field.number;
            match (field.number, field.wire) {
                // selfLink, empty since Kubernetes 1.20.
                (1, WireValue::Bytes([])) => {}
                (2, WireValue::Bytes(version)) => {
                    let version = text(version)?.parse();
                    let bad = |_| malformed("its resourceVersion is not a number");
                    self.page.revision = version.map_err(bad)?;
                }
                (3, WireValue::Bytes(token)) => self.page.continue_token = text(token)?.to_owned(),
                (4, WireValue::Varint(remaining)) => self.page.remaining = Some(remaining),
                (5, WireValue::Bytes(info)) => {
                    let selector = find_bytes(info, 1).map_err(|e| bad(&e))?;
                    let selector = selector.unwrap_or_default();
                    if bytes_field_len(1, selector.len()) != info.len() {
                        return Err(bad(&"more in its shardInfo than a selector"));
                    }
                    self.page.shard = Some(text(selector)?.to_owned());
                }
                (number, _) => {
                    let why = format!("field {number}, which it does not have");
                    return Err(bad(&why));
                }
            }
        }
        Ok(())
    }
}

/// Returns the level of a list whose metadata has been read, with `left` bytes left.
fn items_level(left: u64) -> Level {
    match left {
        0 => Level::Tail(envelope::TAIL),
        left => Level::Items { left },
    }
}

/// The wire type of bytes, text and messages.
const LENGTH_DELIMITED: u64 = 2;

/// The head of a field.
struct Head {
    number: u64,
    wire_type: u64,
    /// The length of the head; that of the whole field if there is no separate payload.
    len: usize,
    payload: usize,
}

/// Returns the head of the field at the start; `None` when it is cut off.
fn head(input: &[u8]) -> Result<Option<Head>, InvalidResponse> {
    let varint = |input: &[u8]| match get_varint(input) {
        Some(read) => Ok(Some(read)),
        None if input.len() < 10 => Ok(None),
        None => Err(malformed("a bad varint")),
    };
    let Some((tag, tag_len)) = varint(input)? else {
        return Ok(None);
    };
    let mut head = Head {
        number: tag >> 3,
        wire_type: tag & 7,
        len: tag_len,
        payload: 0,
    };
    if head.wire_type == LENGTH_DELIMITED {
        let Some((payload, len)) = varint(&input[tag_len..])? else {
            return Ok(None);
        };
        head.len += len;
        head.payload = usize::try_from(payload).unwrap_or(usize::MAX);
        if head.payload >= usize::MAX / 2 {
            return Err(malformed("a field of impossible length"));
        }
    }
    Ok(Some(head))
}

fn text(bytes: &[u8]) -> Result<&str, InvalidResponse> {
    std::str::from_utf8(bytes).map_err(|_| malformed("text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use kube_api::ApiResource;
    use kube_api::protobuf::put_bytes;
    use workloads::Fingerprint;

    use super::*;
    use crate::verify::Check;
    use crate::verify::Listed;

    const ROOT: &str = "/registry/";

    /// Returns a stored pod: metadata with name and namespace, and a spec.
    fn stored(name: &str, version: &str) -> Vec<u8> {
        let mut meta = Vec::new();
        put_bytes(&mut meta, 1, name.as_bytes());
        put_bytes(&mut meta, 2, b"");
        put_bytes(&mut meta, 3, b"ns");
        put_bytes(&mut meta, 5, b"uid");
        put_bytes(&mut meta, 6, version.as_bytes());
        // Long enough that the resourceVersion moves the metadata's length across a varint
        // boundary.
        put_bytes(&mut meta, 9, &[b'x'; 102]);
        let mut pod = Vec::new();
        put_bytes(&mut pod, 1, &meta);
        put_bytes(&mut pod, 2, b"spec");
        pod
    }

    fn list(names: &[&str]) -> Vec<u8> {
        envelope::seal("v1", "PodList", &raw(names))
    }

    fn raw(names: &[&str]) -> Vec<u8> {
        let mut meta = Vec::new();
        put_bytes(&mut meta, 1, b"");
        put_bytes(&mut meta, 2, b"77");
        put_bytes(&mut meta, 3, b"token");
        meta.extend([0x20, 9]);
        let mut raw = Vec::new();
        put_bytes(&mut raw, 1, &meta);
        for name in names {
            put_bytes(&mut raw, 2, &stored(name, "55"));
        }
        raw
    }

    fn validated(body: &[u8], cut: usize) -> Result<(Page, Fingerprint, u64), InvalidResponse> {
        let pods = ApiResource::core("pods", "Pod");
        let mut validator = ProtobufValidator::new(ItemDecoder::one_by_one(&pods));
        let mut check = Check::new(ROOT);
        validator.feed(&body[..cut], Some(&mut check))?;
        validator.feed(&body[cut..], Some(&mut check))?;
        let page = validator.next_page()?;
        let listed = Listed {
            revision: page.revision,
            ..Listed::default()
        };
        let found = check.finish(&listed, None)?;
        Ok((page, found.fingerprint, found.revisions))
    }

    #[test]
    fn items_are_restored_to_what_was_stored_wherever_frames_are_cut() {
        let mut expected = Fingerprint::default();
        for name in ["a", "b"] {
            let value = envelope::seal("v1", "Pod", &stored(name, ""));
            expected.add(format!("pods/ns/{name}").as_bytes(), &value);
        }
        let body = list(&["a", "b"]);
        for cut in 0..=body.len() {
            let (page, fingerprint, _) = validated(&body, cut).expect("a valid list");
            assert_eq!(fingerprint, expected, "cut at {cut}");
            assert_eq!((page.revision, page.items), (77, 2));
            assert_eq!(
                (page.continue_token.as_str(), page.remaining),
                ("token", Some(9))
            );
        }
    }

    #[test]
    fn a_flipped_byte_never_passes_as_the_same_list() {
        let body = list(&["a", "b"]);
        let whole = validated(&body, 0).expect("a valid list");
        for at in 0..body.len() {
            for bit in [1, 0x20, 0x80] {
                let mut flipped = body.clone();
                flipped[at] ^= bit;
                assert_ne!(
                    validated(&flipped, 0).ok(),
                    Some(whole.clone()),
                    "flipped byte {at} passed"
                );
            }
        }
    }

    #[test]
    fn nothing_but_the_list_may_be_there() {
        let body = list(&["a", "b"]);
        // An unknown field, in the envelope and in the list.
        let behind = [&body[..], &[0x2a, 0x00]].concat();
        let mut longer = raw(&["a", "b"]);
        put_bytes(&mut longer, 9, b"more");
        let mut no_meta = Vec::new();
        put_bytes(&mut no_meta, 2, &stored("a", "55"));
        for (wrong, says) in [
            (behind, "behind its end"),
            (envelope::seal("v1", "PodList", &longer), "field 9"),
            (envelope::seal("v1", "PodList", &no_meta), "field 2"),
            (envelope::seal("v1", "SecretList", &raw(&["a"])), "its type"),
            (envelope::seal("v2", "PodList", &raw(&["a"])), "its type"),
        ] {
            let error = validated(&wrong, 0).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn disorder_and_truncation_are_wrong() {
        assert!(matches!(
            validated(&list(&["b", "a"]), 0),
            Err(InvalidResponse::Order { index: 1, .. })
        ));
        assert!(matches!(
            validated(&list(&["a", "a"]), 0),
            Err(InvalidResponse::Order { .. })
        ));
        let body = list(&["a"]);
        for len in 0..body.len() {
            assert!(
                validated(&body[..len], 0).is_err(),
                "{len} of {} bytes passed",
                body.len()
            );
        }
        assert!(validated(b"{\"kind\":\"PodList\"}", 0).is_err());
    }
}
