//! The way that a comparison took through an object, taken again through the next: neighbours differ from the kept object in the
//! same places, and what is known to come needs no search.

use std::hint::black_box;
use std::ops::Range;

use super::patch::Patch;
use super::trace::{Fragments, Link};
use super::value::{is_left_out, key_of};
use crate::protobuf::Fields;
use crate::schema::Field;

/// Values longer than this are fetched when they are found, and read when they are written. The processor fetches ahead by itself
/// for a comparison that goes on through memory; what that leaps over is waited for line by line, half a microsecond for 1 KB.
const LONG_BYTES: usize = 256;

/// Bytes that come from memory together.
const LINE_BYTES: usize = 64;

/// What comes next in an object.
#[derive(Debug)]
enum Step {
    /// Whole fields that are as in the known object, from one place there to another.
    Equal(Range<u32>),
    /// A field with this number.
    Field(u32, Role),
    /// The end of the message that was entered last.
    Leave,
}

/// What a field is that is not known to be equal.
#[derive(Debug)]
enum Role {
    /// A message, whose fields come next; in the known object it is this fragment.
    Message(Link),
    /// Not shown in JSON.
    Unshown,
    /// A value to be written.
    Value {
        fragment: Link,
        row: &'static Field,
        /// The key in the known object, of a map's entry.
        key: Option<Range<u32>>,
        /// Its place among the patches.
        patch: u32,
    },
}

/// Steps through an object. Without any, none is known.
#[derive(Debug, Default)]
pub(super) struct Course {
    steps: Vec<Step>,
    /// Whether what was noted is not the way of objects to come.
    is_lost: bool,
    /// Ends of the messages that were entered.
    ends: Vec<usize>,
}

impl Course {
    /// Forgets it.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.is_lost = false;
    }

    // === noted while objects are compared ===

    pub(super) fn equal(&mut self, from: usize, to: usize) {
        if from < to {
            self.steps.push(Step::Equal(from as u32..to as u32));
        }
    }

    pub(super) fn enter(&mut self, fragment: Link, number: u32) {
        self.steps
            .push(Step::Field(number, Role::Message(fragment)));
    }

    pub(super) fn leave(&mut self) {
        self.steps.push(Step::Leave);
    }

    pub(super) fn unshown(&mut self, number: u32) {
        self.steps.push(Step::Field(number, Role::Unshown));
    }

    pub(super) fn value(&mut self, fragment: Link, row: &'static Field, key: Option<Range<u32>>) {
        let role = Role::Value {
            fragment,
            row,
            key,
            patch: 0,
        };
        self.steps.push(Step::Field(row.number.into(), role));
    }

    /// A message was left in the middle, to be written whole.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// All of the object was noted, and `patches` are what is different in it, in the order of the text. From now on whatever was
    /// different counts as different, so that objects which agree with the known one by chance take the same course.
    pub(super) fn finish(&mut self, fragments: &mut Fragments, patches: &[Patch]) {
        for step in &mut self.steps {
            match step {
                Step::Field(_, Role::Message(fragment)) => fragments.vary(*fragment),
                Step::Field(
                    _,
                    Role::Value {
                        fragment, patch, ..
                    },
                ) => {
                    fragments.vary(*fragment);
                    *patch = patches.partition_point(|patch| patch.fragment < *fragment) as u32;
                }
                Step::Equal(_) | Step::Field(_, Role::Unshown) | Step::Leave => {}
            }
        }
        if self.is_lost {
            self.clear();
        }
    }

    // === taken ===

    /// Takes it through `other` and notes in `patches` where the values lie. False when `other` is not like that,
    /// and then what is in `patches` means nothing.
    pub(super) fn follow(&mut self, known: &[u8], other: &[u8], patches: &mut [Patch]) -> bool {
        !self.steps.is_empty() && self.lead(known, other, patches).is_some()
    }

    /// None where they lead elsewhere.
    fn lead(&mut self, known: &[u8], other: &[u8], patches: &mut [Patch]) -> Option<()> {
        self.ends.clear();
        let (mut at, mut end) = (0, other.len());
        let part = |range: &Range<u32>| &known[range.start as usize..range.end as usize];
        for step in &self.steps {
            let (number, role) = match step {
                Step::Equal(range) => {
                    let equal = part(range);
                    if other[at..end].get(..equal.len())? != equal {
                        return None;
                    }
                    at += equal.len();
                    continue;
                }
                Step::Field(number, role) => (*number, role),
                Step::Leave => {
                    if at != end {
                        return None;
                    }
                    end = self.ends.pop()?;
                    continue;
                }
            };
            let found = Fields::from(&other[..end], at).next()?.ok()?;
            if found.number != number {
                return None;
            }
            at = found.end;
            match role {
                Role::Message(_) => {
                    let inside = found.wire.bytes()?;
                    self.ends.push(end);
                    end = found.end;
                    at -= inside.len();
                }
                Role::Unshown => {}
                Role::Value {
                    row, key, patch, ..
                } => {
                    if is_left_out(row, found.wire) {
                        return None;
                    }
                    if let Some(key) = key
                        && key_of(found.wire)? != part(key)
                    {
                        return None;
                    }
                    patches[*patch as usize].field = found.start as u32;
                    if found.end - found.start > LONG_BYTES {
                        fetch(&other[found.start..found.end]);
                    }
                }
            }
        }
        (at == end).then_some(())
    }
}

/// Has the processor fetch these bytes, all lines at once.
fn fetch(bytes: &[u8]) {
    let lines = bytes.iter().step_by(LINE_BYTES).chain(bytes.last());
    black_box(lines.fold(0, |sum, first| sum ^ first));
}
