//! Predicts the differences of an object from those of the preceding object.
//!
//! Neighbours differ from the base in the same places, and a known place need not be searched for.

use std::hint::black_box;
use std::ops::Range;

use super::field_map::{EntryIndex, FieldMap};
use super::patch::Patch;
use super::value::{is_omitted, key_of};
use crate::protobuf::Fields;
use crate::schema::Field;

/// Values longer than this are prefetched when they are found, because they are read only when they
/// are written. The processor itself prefetches memory that a comparison reads sequentially, but
/// not values that the comparison skips, which costs half a microsecond for 1 KB.
const LONG_BYTES: usize = 256;

/// Size of a cache line, bytes.
const LINE_BYTES: usize = 64;

/// A step of the comparison of an object with the base.
#[derive(Debug)]
enum Step {
    /// Whole fields that are equal to this range of the base.
    Equal(Range<u32>),
    /// A field with this number, and its role.
    Field(u32, Role),
    /// The end of the innermost message.
    Leave,
}

/// The role of a field that is not expected to be equal.
#[derive(Debug)]
enum Role {
    /// A message, whose fields follow, and its entry in the base.
    Message(EntryIndex),
    /// A field that JSON omits.
    NotShown,
    /// A value that must be written.
    Value {
        entry: EntryIndex,
        spec: &'static Field,
        /// The range of a map entry's key in the base.
        key: Option<Range<u32>>,
        /// The index of its patch.
        patch: u32,
    },
}

/// The predicted steps of a comparison; empty if there is no prediction.
#[derive(Debug, Default)]
pub(super) struct PredictedDiff {
    steps: Vec<Step>,
    /// Whether the recorded steps cover only a part of an object.
    is_incomplete: bool,
    /// Ends of the enclosing messages.
    ends: Vec<usize>,
}

impl PredictedDiff {
    /// Removes the prediction.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.is_incomplete = false;
    }

    // === recorded while objects are compared ===

    pub(super) fn equal(&mut self, from: usize, to: usize) {
        if from < to {
            self.steps.push(Step::Equal(from as u32..to as u32));
        }
    }

    pub(super) fn enter(&mut self, entry: EntryIndex, number: u32) {
        self.steps.push(Step::Field(number, Role::Message(entry)));
    }

    pub(super) fn leave(&mut self) {
        self.steps.push(Step::Leave);
    }

    pub(super) fn skip_field(&mut self, number: u32) {
        self.steps.push(Step::Field(number, Role::NotShown));
    }

    pub(super) fn value(
        &mut self,
        entry: EntryIndex,
        spec: &'static Field,
        key: Option<Range<u32>>,
    ) {
        let role = Role::Value {
            entry,
            spec,
            key,
            patch: 0,
        };
        self.steps.push(Step::Field(spec.number.into(), role));
    }

    /// Records that the comparison of a message was abandoned, because the message is written
    /// whole.
    pub(super) fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Ends the recording for an object, whose differences `patches` are in text order. From now
    /// on, its fields that differ are treated as different in all objects, so that the prediction
    /// also holds for objects that equal the base in some of them by chance.
    pub(super) fn finish(&mut self, field_map: &mut FieldMap, patches: &[Patch]) {
        for step in &mut self.steps {
            match step {
                Step::Field(_, Role::Message(entry)) => field_map.mark_varying(*entry),
                Step::Field(_, Role::Value { entry, patch, .. }) => {
                    field_map.mark_varying(*entry);
                    *patch = patches.partition_point(|patch| patch.entry < *entry) as u32;
                }
                Step::Equal(_) | Step::Field(_, Role::NotShown) | Step::Leave => {}
            }
        }
        if self.is_incomplete {
            self.clear();
        }
    }

    // === applied to the next object ===

    /// Applies the steps to `other` and sets the positions of its values in `patches`. Returns
    /// false if `other` differs in other places; `patches` are then undefined.
    pub(super) fn apply(&mut self, base: &[u8], other: &[u8], patches: &mut [Patch]) -> bool {
        !self.steps.is_empty() && self.try_apply(base, other, patches).is_some()
    }

    /// Does the work of [`Self::apply`]; returns `None` if the prediction does not hold.
    fn try_apply(&mut self, base: &[u8], other: &[u8], patches: &mut [Patch]) -> Option<()> {
        self.ends.clear();
        let (mut at, mut end) = (0, other.len());
        let part = |range: &Range<u32>| &base[range.start as usize..range.end as usize];
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
                Role::NotShown => {}
                Role::Value {
                    spec, key, patch, ..
                } => {
                    if is_omitted(spec, found.wire) {
                        return None;
                    }
                    if let Some(key) = key
                        && key_of(found.wire)? != part(key)
                    {
                        return None;
                    }
                    patches[*patch as usize].field = found.start as u32;
                    if found.end - found.start > LONG_BYTES {
                        prefetch(&other[found.start..found.end]);
                    }
                }
            }
        }
        (at == end).then_some(())
    }
}

/// Loads the cache lines of these bytes, all in parallel.
fn prefetch(bytes: &[u8]) {
    let lines = bytes.iter().step_by(LINE_BYTES).chain(bytes.last());
    black_box(lines.fold(0, |sum, first| sum ^ first));
}
