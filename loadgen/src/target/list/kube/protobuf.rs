//! Walks a Kubernetes list in protobuf while it comes in.
//!
//! The body is `k8s\0` and a `runtime.Unknown` whose `raw` is the list: `ListMeta`, then the items.

use etcd_api::client::walk::{Carry, Unit};
use kube_api::envelope;
use kube_api::protobuf::{Fields, find_bytes, get_varint};

use super::frames::LONGEST_FRAME;
use super::not_a_list;
use super::pages::Page;
use super::restore::{Restore, Sink};
use crate::verify::Wrong;

/// Where in the body the next unit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Magic,
    Unknown,
    List { left: u64 },
}

/// The walk over one page; the order of keys is carried from page to page by [`ProtobufWalker::next_page`].
#[derive(Debug)]
pub(super) struct ProtobufWalker {
    level: Level,
    carry: Carry,
    page: Page,
    seen_list: bool,
    restore: Restore,
}

impl ProtobufWalker {
    /// A walk that shows each object as it is stored.
    pub(super) fn new(restore: Restore) -> Self {
        Self {
            level: Level::Magic,
            carry: Carry::default(),
            page: Page::default(),
            seen_list: false,
            restore,
        }
    }

    /// Items of the page so far.
    pub(super) fn items(&self) -> u64 {
        self.page.items
    }

    /// Takes the next bytes of the body.
    pub(super) fn feed(
        &mut self,
        frame: &[u8],
        mut sink: Option<&mut impl Sink>,
    ) -> Result<(), Wrong> {
        self.page.bytes += frame.len() as u64;
        let mut carry = std::mem::take(&mut self.carry);
        carry.feed(frame, |input, _| self.unit(input, sink.as_deref_mut()))?;
        self.carry = carry;
        Ok(())
    }

    /// Ends a page and makes ready for the next.
    pub(super) fn next_page(&mut self) -> Result<Page, Wrong> {
        if self.level != Level::Unknown || !self.carry.is_empty() || !self.seen_list {
            return Err(not_a_list("the body is cut short"));
        }
        self.level = Level::Magic;
        self.seen_list = false;
        Ok(std::mem::take(&mut self.page))
    }

    fn unit(&mut self, input: &[u8], sink: Option<&mut impl Sink>) -> Result<Unit, Wrong> {
        let left = match self.level {
            Level::Magic => {
                let Some(head) = input.get(..envelope::MAGIC.len()) else {
                    return Ok(Unit::Need(envelope::MAGIC.len()));
                };
                if head != envelope::MAGIC {
                    return Err(not_a_list("it does not begin with the protobuf magic"));
                }
                self.level = Level::Unknown;
                return Ok(Unit::Taken(envelope::MAGIC.len()));
            }
            Level::Unknown => u64::MAX,
            Level::List { left } => left,
        };
        let Some((number, head, payload)) = head(input)? else {
            return Ok(Unit::Need(input.len() + 1));
        };
        if self.level == Level::Unknown && number == 2 {
            self.seen_list = true;
            self.level = list_level(payload as u64);
            return Ok(Unit::Taken(head));
        }
        let len = head + payload;
        if len as u64 > left {
            return Err(not_a_list("a field reaches beyond the list"));
        }
        if len > LONGEST_FRAME {
            return Err(not_a_list("a field longer than any object"));
        }
        let Some(unit) = input.get(..len) else {
            return Ok(Unit::Need(len));
        };
        if let Level::List { left } = self.level {
            match number {
                1 => self.list_meta(&unit[head..])?,
                2 => {
                    self.page.items += 1;
                    self.restore.protobuf(&unit[head..], sink)?;
                }
                _ => {}
            }
            self.level = list_level(left - len as u64);
        }
        Ok(Unit::Taken(len))
    }

    fn list_meta(&mut self, meta: &[u8]) -> Result<(), Wrong> {
        for field in Fields::new(meta) {
            let field = field.map_err(|e| not_a_list(&e.to_string()))?;
            match (field.number, field.wire.bytes()) {
                (2, Some(version)) => {
                    self.page.revision = text(version)?
                        .parse()
                        .map_err(|_| not_a_list("its resourceVersion is not a number"))?;
                }
                (3, Some(token)) => self.page.continue_token = text(token)?.to_owned(),
                (5, Some(info)) => {
                    let selector = find_bytes(info, 1).map_err(|e| not_a_list(&e.to_string()))?;
                    self.page.shard = Some(text(selector.unwrap_or_default())?.to_owned());
                }
                _ => {}
            }
        }
        self.page.remaining = remaining_item_count(meta);
        Ok(())
    }
}

fn list_level(left: u64) -> Level {
    match left {
        0 => Level::Unknown,
        left => Level::List { left },
    }
}

/// Number, length of the head and length of the payload of the field at the start; `None` when the head is cut off.
fn head(input: &[u8]) -> Result<Option<(u64, usize, usize)>, Wrong> {
    let Some((tag, tag_len)) = get_varint(input) else {
        return if input.len() < 10 {
            Ok(None)
        } else {
            Err(not_a_list("a bad varint"))
        };
    };
    let rest = &input[tag_len..];
    Ok(match tag & 7 {
        0 => match get_varint(rest) {
            Some((_, len)) => Some((tag >> 3, tag_len + len, 0)),
            None if rest.len() < 10 => None,
            None => return Err(not_a_list("a bad varint")),
        },
        2 => match get_varint(rest) {
            Some((payload, len)) => {
                let payload = usize::try_from(payload).unwrap_or(usize::MAX / 2);
                if payload >= usize::MAX / 2 {
                    return Err(not_a_list("a field of impossible length"));
                }
                Some((tag >> 3, tag_len + len, payload))
            }
            None if rest.len() < 10 => None,
            None => return Err(not_a_list("a bad varint")),
        },
        1 => Some((tag >> 3, tag_len, 8)),
        5 => Some((tag >> 3, tag_len, 4)),
        _ => return Err(not_a_list("a field of unknown wire type")),
    })
}

/// Field 4 of `ListMeta`, a varint.
fn remaining_item_count(meta: &[u8]) -> Option<u64> {
    let mut rest = meta;
    while let Ok(Some((number, head, payload))) = head(rest) {
        if number == 4 {
            return get_varint(rest.get(1..)?).map(|(value, _)| value);
        }
        rest = rest.get(head + payload..)?;
    }
    None
}

fn text(bytes: &[u8]) -> Result<&str, Wrong> {
    std::str::from_utf8(bytes).map_err(|_| not_a_list("text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use kube_api::protobuf::put_bytes;
    use workloads::Fingerprint;

    use super::*;
    use crate::target::list::Listed;
    use crate::verify::Check;

    const ROOT: &str = "/registry/";

    /// A stored pod: metadata with name and namespace, and a spec.
    fn stored(name: &str, version: &str) -> Vec<u8> {
        let mut meta = Vec::new();
        put_bytes(&mut meta, 1, name.as_bytes());
        put_bytes(&mut meta, 2, b"");
        put_bytes(&mut meta, 3, b"ns");
        put_bytes(&mut meta, 5, b"uid");
        put_bytes(&mut meta, 6, version.as_bytes());
        // Long enough that the resourceVersion moves the metadata's length over a varint's edge.
        put_bytes(&mut meta, 9, &[b'x'; 102]);
        let mut pod = Vec::new();
        put_bytes(&mut pod, 1, &meta);
        put_bytes(&mut pod, 2, b"spec");
        pod
    }

    fn list(names: &[&str]) -> Vec<u8> {
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
        envelope::seal("v1", "PodList", &raw)
    }

    fn walk(body: &[u8], cut: usize) -> Result<(Page, Fingerprint, u64), Wrong> {
        let mut walker = ProtobufWalker::new(Restore::one_by_one("pods"));
        let mut check = Check::new(ROOT);
        walker.feed(&body[..cut], Some(&mut check))?;
        walker.feed(&body[cut..], Some(&mut check))?;
        let page = walker.next_page()?;
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
            let (page, fingerprint, _) = walk(&body, cut).expect("a valid list");
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
        let whole = walk(&body, 0).expect("a valid list");
        let meta = b"PodList";
        let start = body
            .windows(meta.len())
            .position(|w| w == meta)
            .expect("its kind");
        // What stands before the list itself (kind of the envelope) is not part of what was stored.
        for at in start + meta.len()..body.len() - envelope::TAIL.len() {
            let mut flipped = body.clone();
            flipped[at] ^= 1;
            assert_ne!(
                walk(&flipped, 0).ok(),
                Some(whole.clone()),
                "flipped byte {at} passed"
            );
        }
    }

    #[test]
    fn disorder_and_truncation_are_wrong() {
        assert!(matches!(
            walk(&list(&["b", "a"]), 0),
            Err(Wrong::Order { index: 1, .. })
        ));
        assert!(matches!(
            walk(&list(&["a", "a"]), 0),
            Err(Wrong::Order { .. })
        ));
        let body = list(&["a"]);
        for len in 0..body.len() - envelope::TAIL.len() {
            assert!(
                walk(&body[..len], 0).is_err(),
                "{len} of {} bytes passed",
                body.len()
            );
        }
        assert!(walk(b"{\"kind\":\"PodList\"}", 0).is_err());
    }
}
