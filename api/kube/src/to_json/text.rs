//! The output buffer for JSON. It copies short pieces in blocks of a fixed size, and escapes
//! strings as Go's encoder does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::escape;
use crate::time;

/// Number of bytes that are copied and checked together.
const BLOCK: usize = 16;
/// Number of bytes by which the buffer grows.
const STEP: usize = 4 * 1024;

/// `"name":`, ready to be copied as two blocks if it is short enough.
#[derive(Debug)]
pub(crate) struct Key {
    text: &'static str,
    block: [u8; 2 * BLOCK],
}

impl Key {
    /// Returns a key, given its text with quotes and colon.
    pub(crate) const fn new(text: &'static str) -> Self {
        let mut block = [0; 2 * BLOCK];
        let mut i = 0;
        while i < text.len() && i < block.len() {
            block[i] = text.as_bytes()[i];
            i += 1;
        }
        Self { text, block }
    }

    /// Returns the name without quotes and colon.
    pub(crate) fn name(&self) -> &'static str {
        &self.text[1..self.text.len() - 2]
    }
}

/// Appends text to a vector. During its lifetime the vector is longer than the text.
///
/// Copying a piece of any length is a call of the C library. Copying a block into existing room
/// takes two instructions, and a pod consists of a thousand pieces of some twenty bytes.
/// takes two instructions, and a pod consists of a thousand pieces of some twenty bytes.
#[derive(Debug)]
pub(super) struct JsonBuffer<'o> {
    out: &'o mut Vec<u8>,
    /// End of the text; bytes after it are undefined.
    end: usize,
    /// Day and date of the last timestamp. Most timestamps of an object are of the same day.
    date: Option<(i64, [u8; time::DATE])>,
}

impl Drop for JsonBuffer<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.end);
    }
}

impl<'o> JsonBuffer<'o> {
    /// Returns a buffer that appends to `out`.
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        Self {
            end: out.len(),
            out,
            date: None,
        }
    }

    /// Returns the end of the text, for [`Self::truncate`].
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Removes the text after `end`.
    pub(super) fn truncate(&mut self, end: usize) {
        self.end = end;
    }

    /// Returns room for the next `length` bytes and two more blocks, which may be overwritten.
    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        let needed = self.end + length + 2 * BLOCK;
        if self.out.len() < needed {
            self.grow(needed);
        }
        &mut self.out[self.end..needed]
    }

    /// Grows the buffer in steps, and within the vector's capacity as long as possible.
    #[cold]
    fn grow(&mut self, needed: usize) {
        let step = (needed + STEP).min(self.out.capacity()).max(needed);
        self.out.resize(step, 0);
    }

    /// Appends one byte.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.room(1)[0] = byte;
        self.end += 1;
    }

    /// Appends a comma if `comma`, then a key.
    #[inline(always)]
    pub(super) fn key(&mut self, comma: bool, key: &Key) {
        let (comma, length) = (usize::from(comma), key.text.len());
        let room = self.room(1 + length);
        room[0] = b',';
        let room = &mut room[comma..];
        match room.first_chunk_mut() {
            Some(block) if length <= 2 * BLOCK => *block = key.block,
            _ => room[..length].copy_from_slice(key.text.as_bytes()),
        }
        self.end += comma + length;
    }

    /// Appends a text of constant length unchanged.
    #[inline]
    pub(super) fn literal<const N: usize>(&mut self, text: &[u8; N]) {
        if let Some(room) = self.room(N).first_chunk_mut() {
            *room = *text;
        }
        self.end += N;
    }

    /// Appends a text unchanged.
    pub(super) fn raw(&mut self, text: &[u8]) {
        self.room(text.len())[..text.len()].copy_from_slice(text);
        self.end += text.len();
    }

    /// Appends a number.
    pub(super) fn int(&mut self, value: i64) {
        match u8::try_from(value) {
            Ok(digit @ 0..10) => self.byte(b'0' + digit),
            _ => self.raw(itoa::Buffer::new().format(value).as_bytes()),
        }
    }

    /// Appends a string in quotes.
    #[inline]
    pub(super) fn string(&mut self, text: &[u8]) {
        let length = text.len();
        let room = self.room(length + 2);
        room[0] = b'"';
        if copy_plain(text, &mut room[1..]) {
            room[length + 1] = b'"';
            self.end += length + 2;
        } else {
            self.escaped(text);
        }
    }

    #[cold]
    fn escaped(&mut self, text: &[u8]) {
        self.out.truncate(self.end);
        escape::put_string(self.out, text);
        self.end = self.out.len();
    }

    /// Appends JSON unchanged, except for the characters that Go's encoder escapes.
    pub(super) fn json(&mut self, json: &[u8]) {
        if escape::is_plain_json(json) {
            self.raw(json);
        } else {
            self.out.truncate(self.end);
            escape::put_json(self.out, json);
            self.end = self.out.len();
        }
    }

    /// Appends bytes as Base64 in quotes.
    pub(super) fn base64(&mut self, bytes: &[u8]) {
        let room = self.room(bytes.len().div_ceil(3) * 4 + 2);
        room[0] = b'"';
        let length = STANDARD
            .encode_slice(bytes, &mut room[1..])
            .expect("four bytes of room for each three");
        room[length + 1] = b'"';
        self.end += length + 2;
    }

    /// Appends seconds since 1970 as a timestamp in quotes.
    pub(super) fn time(&mut self, seconds: i64) {
        let timestamp = self.timestamp(seconds);
        let room = self.room(timestamp.len() + 2);
        room[0] = b'"';
        room[1..=timestamp.len()].copy_from_slice(&timestamp);
        room[timestamp.len() + 1] = b'"';
        self.end += timestamp.len() + 2;
    }

    /// Appends a timestamp with microseconds in quotes.
    pub(super) fn micro_time(&mut self, seconds: i64, micros: i64) {
        self.byte(b'"');
        let mut text = Vec::new();
        time::put_rfc3339_micros(&mut text, seconds, micros);
        self.raw(&text);
        self.byte(b'"');
    }

    fn timestamp(&mut self, seconds: i64) -> [u8; time::TIMESTAMP] {
        let day = time::day(seconds);
        let date = match self.date {
            Some((known, date)) if known == day => date,
            _ => time::date(day),
        };
        self.date = Some((day, date));
        time::timestamp(date, seconds)
    }
}

/// Copies text to the beginning of `to`, which is at least a block longer. Returns false if
/// something must be escaped; the contents of `to` are then undefined.
#[inline]
fn copy_plain(text: &[u8], to: &mut [u8]) -> bool {
    let mut special = [0; BLOCK];
    if let Some(last) = text.last_chunk::<BLOCK>() {
        let blocks = text.as_chunks::<BLOCK>().0;
        for (block, to) in blocks.iter().zip(to.as_chunks_mut::<BLOCK>().0) {
            *to = *block;
            escape::mark_special(block, &mut special);
        }
        // The last block overlaps bytes that have already been copied.
        if let Some(to) = to[..text.len()].last_chunk_mut() {
            *to = *last;
        }
        escape::mark_special(last, &mut special);
    } else {
        let mut block = [b' '; BLOCK];
        gather(text, &mut block);
        if let Some(to) = to.first_chunk_mut() {
            *to = block;
        }
        escape::mark_special(&block, &mut special);
    }
    special.iter().fold(0, |any, byte| any | byte) == 0
}

/// Copies a text shorter than a block to the beginning of `block`, as two halves that may overlap.
#[inline]
fn gather(text: &[u8], block: &mut [u8; BLOCK]) {
    fn halves<const N: usize>(text: &[u8], block: &mut [u8; BLOCK]) -> bool {
        let (Some(first), Some(last)) = (text.first_chunk::<N>(), text.last_chunk::<N>()) else {
            return false;
        };
        block[..N].copy_from_slice(first);
        block[text.len() - N..text.len()].copy_from_slice(last);
        true
    }
    if !(halves::<8>(text, block) || halves::<4>(text, block) || halves::<2>(text, block))
        && let [byte] = text
    {
        block[0] = *byte;
    }
}
