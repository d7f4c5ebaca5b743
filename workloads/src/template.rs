//! Generates objects from an encoded template by overwriting the parts that differ between objects.
//!
//! Every replacement has the length of the bytes that it replaces, so no length prefix in the
//! encoded object changes. An object costs one copy and a few dozen short writes.

use kube_api::envelope;
use kube_api::protobuf::{get_varint, put_varint};
use kube_api::schema::Message;
use kube_api::time::put_rfc3339;
use serde_json::Value;

/// Timestamp that marks a time in a template. It is in the year 2514: a varint of five bytes, like
/// every time from 1978 to 3058.
const TIME_MARK: i64 = 1 << 34;

/// Exclusive upper bound of N in the times of a template, which are `"@N"`: N seconds after the
/// object's creation.
const TIME_SPAN: i64 = 60;

/// First byte of a marked slot. It occurs nowhere else in a template.
const MARK: u8 = b'~';

/// A part that differs between objects: its name in the template and its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) name: &'a str,
    pub(crate) length: usize,
}

/// An encoded object with the positions of its slots.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Offset and number of each slot.
    slots: Vec<(usize, usize)>,
    /// Offset of each time, and its seconds after creation.
    times: Vec<(usize, i64)>,
}

impl Template {
    /// Encodes the object of a JSON template, without envelope. `${name}` is replaced by a constant
    /// or marks a slot of at least two bytes; `"@N"` marks a time.
    ///
    /// # Panics
    /// If the template does not fit the schema, or has a name that is neither a constant nor a
    /// slot. Templates are part of this crate, and each is covered by a test.
    pub(crate) fn new(
        message: &'static Message,
        json: &str,
        constants: &[(&str, &str)],
        slots: &[Slot<'_>],
    ) -> Self {
        assert!(
            !json.as_bytes().contains(&MARK),
            "templates must not hold the mark"
        );
        let mut text = json.to_owned();
        for (name, value) in constants {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        for (i, slot) in slots.iter().enumerate() {
            assert!(slot.length >= 2, "a mark needs two bytes");
            let mut mark = vec![MARK; slot.length];
            mark[1] = b'A' + i as u8;
            let mark = String::from_utf8(mark).expect("ASCII");
            text = text.replace(&format!("${{{}}}", slot.name), &mark);
        }
        assert!(!text.contains("${"), "template names something unknown");
        for seconds in 0..TIME_SPAN {
            let mut mark = Vec::new();
            put_rfc3339(&mut mark, TIME_MARK + seconds);
            text = text.replace(
                &format!("\"@{seconds}\""),
                &format!("\"{}\"", String::from_utf8_lossy(&mark)),
            );
        }

        let value: Value = serde_json::from_str(&text).expect("templates are JSON");
        let object = value.as_object().expect("templates are objects");
        let mut bytes = Vec::new();
        kube_api::from_json(message, object, &mut bytes).expect("templates fit the schema");

        let (mut places, mut times) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == MARK {
                let slot = usize::from(bytes[at + 1] - b'A');
                places.push((at, slot));
                at += slots[slot].length;
                continue;
            }
            if let Some((value, 5)) = get_varint(&bytes[at..]) {
                let seconds = (value as i64).wrapping_sub(TIME_MARK);
                if (0..TIME_SPAN).contains(&seconds) {
                    times.push((at, seconds));
                    at += 5;
                    continue;
                }
            }
            at += 1;
        }
        Self {
            bytes,
            slots: places,
            times,
        }
    }

    /// Returns the size of every object, bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Encloses the template in constant bytes.
    pub(crate) fn enclose(mut self, before: &[u8], behind: &[u8]) -> Self {
        self.bytes.splice(..0, before.iter().copied());
        self.bytes.extend_from_slice(behind);
        self.bytes.shrink_to_fit();
        for (at, _) in &mut self.slots {
            *at += before.len();
        }
        for (at, _) in &mut self.times {
            *at += before.len();
        }
        self
    }

    /// Puts the template into an envelope.
    pub(crate) fn seal(self, api_version: &str, kind: &str) -> Self {
        let mut head = Vec::new();
        envelope::put_head(&mut head, api_version, kind, self.len());
        self.enclose(&head, envelope::TAIL)
    }

    /// Appends the object with these slot values, created at `created` (seconds since 1970).
    pub(crate) fn write(&self, values: &[&[u8]], created: i64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let object = &mut out[start..];
        for &(at, slot) in &self.slots {
            let value = values[slot];
            object[at..at + value.len()].copy_from_slice(value);
        }
        let mut varint = Vec::with_capacity(5);
        for &(at, seconds) in &self.times {
            varint.clear();
            put_varint(&mut varint, (created + seconds) as u64);
            object[at..at + 5].copy_from_slice(&varint);
        }
    }
}
