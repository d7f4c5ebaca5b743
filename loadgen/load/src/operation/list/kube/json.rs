//! Validates a Kubernetes list in JSON while it streams in. The head before the items is read at
//! once, and each item when it is complete. A list of custom resources has its kind and metadata
//! after its items, because an apiserver writes it as a map with sorted keys. These are read at its
//! end.

mod head;

use memchr::{memchr2, memmem};

use self::head::Head;
use super::frames::LONGEST_FRAME;
use super::pages::Page;
use super::stored_bytes::ItemDecoder;
use crate::verify::{Check, InvalidResponse, malformed};

/// The text between a list's metadata and its first item.
const ITEMS: &[u8] = b",\"items\":[";
/// The text after the last item: the end of the items and of the list, and the newline that a
/// server writes.
const TAIL: &[u8] = b"]}\n";
/// The beginning of kind and metadata if they follow the items. They contain no array, so nothing
/// like it can follow.
const TYPE_BEHIND: &[u8] = b"],\"kind\":\"";
/// The size limit of a head.
const LONGEST_HEAD: usize = 64 << 10;
/// The size limit of what follows the items.
const LONGEST_END: usize = 16 << 10;

/// The validator's position in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Head,
    /// Before the first item, or the end of a list without any.
    First,
    Item,
    /// After an item: a comma, or the end of the items.
    Behind,
    /// After a comma: only an item may follow.
    Comma,
    /// After the last item, with the rest of [`TAIL`].
    Tail(&'static [u8]),
    /// After the last item: kind and metadata.
    End,
}

/// Validates one page. [`JsonValidator::next_page`] carries the order of keys over to the next
/// page.
#[derive(Debug)]
pub(super) struct JsonValidator {
    at: At,
    /// The head, the part of an item received in earlier frames, or what follows the items.
    kept: Vec<u8>,
    /// The head, if kind and metadata follow the items.
    open_head: Option<Vec<u8>>,
    scan: Scan,
    page: Page,
    decoder: ItemDecoder,
}

/// Finds the end of one JSON object in bytes that arrive in parts.
#[derive(Debug, Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

impl JsonValidator {
    /// Returns a validator of lists whose items are restored to their stored bytes by `decoder`.
    pub(super) fn new(decoder: ItemDecoder) -> Self {
        Self {
            at: At::Head,
            kept: Vec::new(),
            open_head: None,
            scan: Scan::default(),
            page: Page::default(),
            decoder,
        }
    }

    /// Returns the number of items of the page so far. Without a check, at most one is counted.
    pub(super) fn items(&self) -> u64 {
        self.page.items
    }

    /// Reads the next bytes of the body. Without a check, nothing after the head is parsed except
    /// whether there is an item.
    pub(super) fn feed(
        &mut self,
        frame: &[u8],
        mut check: Option<&mut Check>,
    ) -> Result<(), InvalidResponse> {
        self.page.bytes += frame.len() as u64;
        let mut rest = frame;
        while !rest.is_empty() {
            let taken = match self.at {
                At::Head => self.head(rest)?,
                At::First | At::Behind | At::Comma => self.between(rest)?,
                At::Item => match check.as_deref_mut() {
                    Some(check) => self.item(rest, check)?,
                    None => {
                        self.page.items = 1;
                        self.keep_end(rest);
                        rest.len()
                    }
                },
                At::Tail(left) => self.tail(rest, left)?,
                At::End => self.end(rest)?,
            };
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Ends a page and prepares for the next. Detects a wrong end only if the page was checked.
    pub(super) fn next_page(&mut self, was_checked: bool) -> Result<Page, InvalidResponse> {
        let cut = || malformed("the body is cut short");
        match (self.open_head.take(), self.at) {
            (_, At::Head) => return Err(cut()),
            (Some(head), At::End) => self.take_head(&[&head[..], &self.kept].concat())?,
            (Some(head), _) if !was_checked => {
                let end = memmem::rfind(&self.kept, TYPE_BEHIND).ok_or_else(cut)?;
                self.take_head(&[&head[..], &self.kept[end + 1..]].concat())?;
            }
            // The final newline may be missing: a list without it is complete.
            (None, At::Tail([] | [b'\n'])) => {}
            (None, _) if !was_checked => {}
            _ => return Err(cut()),
        }
        self.at = At::Head;
        self.kept.clear();
        self.scan = Scan::default();
        Ok(std::mem::take(&mut self.page))
    }

    fn head(&mut self, bytes: &[u8]) -> Result<usize, InvalidResponse> {
        let before = self.kept.len();
        self.kept
            .extend_from_slice(&bytes[..bytes.len().min(LONGEST_HEAD)]);
        let Some(end) = memmem::find(&self.kept, ITEMS) else {
            if self.kept.len() > LONGEST_HEAD {
                return Err(malformed("no items within its first 64 KiB"));
            }
            return Ok(self.kept.len() - before);
        };
        let head = std::mem::take(&mut self.kept);
        if memmem::find(&head[..end], b"\"metadata\":").is_some() {
            self.take_head(&[&head[..end], b"}"].concat())?;
        } else {
            self.open_head = Some(head[..end].to_vec());
        }
        self.at = At::First;
        Ok(end + ITEMS.len() - before)
    }

    /// Reads the list's metadata from the text of a list without its items.
    fn take_head(&mut self, text: &[u8]) -> Result<(), InvalidResponse> {
        let head = Head::read(text, self.decoder.resource())?;
        self.page.revision = head.revision;
        self.page.continue_token = head.continue_token;
        self.page.remaining = head.remaining;
        self.page.shard = head.shard;
        Ok(())
    }

    fn between(&mut self, bytes: &[u8]) -> Result<usize, InvalidResponse> {
        self.at = match (self.at, bytes[0]) {
            (At::Behind, b',') => At::Comma,
            (At::First | At::Comma, b'{') => {
                self.at = At::Item;
                return Ok(0);
            }
            (At::First | At::Behind, b']') if self.open_head.is_some() => At::End,
            (At::First | At::Behind, b']') => At::Tail(&TAIL[1..]),
            (_, other) => {
                let other = other.escape_ascii();
                let item = self.page.items;
                return Err(malformed(&format!("`{other}` behind {item} items")));
            }
        };
        Ok(1)
    }

    fn tail(&mut self, bytes: &[u8], left: &'static [u8]) -> Result<usize, InvalidResponse> {
        let len = bytes.len().min(left.len());
        if len == 0 || bytes[..len] != left[..len] {
            return Err(malformed("something stands behind its end"));
        }
        self.at = At::Tail(&left[len..]);
        Ok(len)
    }

    /// Buffers the bytes after the items. They are read when the page ends.
    fn end(&mut self, bytes: &[u8]) -> Result<usize, InvalidResponse> {
        self.kept.extend_from_slice(bytes);
        match self.kept.len() > LONGEST_END {
            true => Err(malformed("too much stands behind its items")),
            false => Ok(bytes.len()),
        }
    }

    /// Keeps what may be the end of a list whose items are not read.
    fn keep_end(&mut self, bytes: &[u8]) {
        if self.open_head.is_none() {
            return;
        }
        let last = &bytes[bytes.len().saturating_sub(LONGEST_END)..];
        let surplus = (self.kept.len() + last.len()).saturating_sub(LONGEST_END);
        self.kept.drain(..surplus.min(self.kept.len()));
        self.kept.extend_from_slice(last);
    }

    fn item(&mut self, bytes: &[u8], check: &mut Check) -> Result<usize, InvalidResponse> {
        if self.scan.is_at_start()
            && let Some(end) = self.decoder.json_again(bytes, check)?
        {
            self.page.items += 1;
            self.at = At::Behind;
            return Ok(end);
        }
        let Some(end) = self.scan.end(bytes) else {
            self.kept.extend_from_slice(bytes);
            if self.kept.len() > LONGEST_FRAME {
                return Err(malformed("an item without end"));
            }
            return Ok(bytes.len());
        };
        self.page.items += 1;
        self.at = At::Behind;
        if self.kept.is_empty() {
            self.decoder.json(&bytes[..end], "", check)?;
        } else {
            self.kept.extend_from_slice(&bytes[..end]);
            self.decoder.json(&self.kept, "", check)?;
            self.kept.clear();
        }
        Ok(end)
    }
}

impl Scan {
    /// Returns whether no byte of the object was scanned.
    fn is_at_start(&self) -> bool {
        self.depth == 0
    }

    /// Returns the position after the object's last brace; `None` if it is not in these bytes.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
                continue;
            }
            if self.in_string {
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                match bytes[at] {
                    b'"' => self.in_string = false,
                    _ => self.is_escaped = true,
                }
                at += 1;
                continue;
            }
            match bytes[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests;
