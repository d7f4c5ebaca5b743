//! The columns of a table, and the cells of a row.

use std::time::{SystemTime, UNIX_EPOCH};

use kube_api::duration::human_duration;
use kube_api::put_string;

use super::message::Message;

/// A column of a kind's table.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// `string`, `integer` or `date`.
    pub(super) type_name: &'static str,
    /// `name` for the column that identifies the object.
    pub(super) format: &'static str,
    pub(super) description: &'static str,
    /// The priority. Columns above 0 are printed only with `-o wide`.
    pub(super) priority: u8,
}

pub(super) const fn column(name: &'static str, description: &'static str) -> Column {
    Column {
        name,
        type_name: "string",
        format: "",
        description,
        priority: 0,
    }
}

pub(super) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column {
        priority: 1,
        ..column(name, description)
    }
}

pub(super) const NAME: Column = Column {
    format: "name",
    ..column("Name", "Identifies the object among those of its kind.")
};

pub(super) const AGE: Column = column("Age", "Time since the object was created.");

/// The cells of a row that is being written.
pub(super) struct Cells<'o> {
    pub(super) out: &'o mut Vec<u8>,
    /// The current time, in seconds since 1970.
    pub(super) now: i64,
    any: bool,
}

impl<'o> Cells<'o> {
    /// Returns cells that are appended to `out`.
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            out,
            now: now.map_or(0, |now| now.as_secs() as i64),
            any: false,
        }
    }

    fn next(&mut self) {
        if std::mem::replace(&mut self.any, true) {
            self.out.push(b',');
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.next();
        put_string(self.out, text.as_bytes());
    }

    /// Appends a text, or `<none>` if it is empty.
    pub(super) fn or_none(&mut self, text: &str) {
        self.text(if text.is_empty() { "<none>" } else { text });
    }

    pub(super) fn null(&mut self) {
        self.next();
        self.out.extend_from_slice(b"null");
    }

    pub(super) fn int(&mut self, value: i64) {
        self.next();
        self.out.extend_from_slice(value.to_string().as_bytes());
    }

    pub(super) fn name(&mut self, object: Message<'_>) {
        self.text(object.metadata().text(1));
    }

    pub(super) fn age(&mut self, object: Message<'_>) {
        self.since(object.metadata().seconds(8));
    }

    /// Appends the time elapsed since `seconds`.
    pub(super) fn since(&mut self, seconds: Option<i64>) {
        let text = seconds.map(|seconds| human_duration(self.now - seconds));
        self.text(text.as_deref().unwrap_or("<unknown>"));
    }
}
