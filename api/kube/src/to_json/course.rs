//! The way that a comparison took through an object, taken again through the next: neighbours differ from the kept object in the
//! same places, and what is known to come needs no search.

use std::ops::Range;

use super::compare::Patch;
use super::trace::{Fragments, Link};
use super::value::{is_left_out, key_of};
use crate::protobuf::{Fields, Wire};
use crate::schema::Field;

/// What comes next in an object.
#[derive(Debug)]
enum Step {
    /// Whole fields that are as in the known object, from one place there to another.
    Equal(Range<u32>),
    /// A message with this number, whose fields come next.
    Enter { fragment: Link, number: u32 },
    /// The end of that message.
    Leave,
    /// A field with this number, which JSON does not show.
    Unshown { number: u32 },
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
        self.steps.push(Step::Enter { fragment, number });
    }

    pub(super) fn leave(&mut self) {
        self.steps.push(Step::Leave);
    }

    pub(super) fn unshown(&mut self, number: u32) {
        self.steps.push(Step::Unshown { number });
    }

    pub(super) fn value(&mut self, fragment: Link, row: &'static Field, key: Option<Range<u32>>) {
        self.steps.push(Step::Value {
            fragment,
            row,
            key,
            patch: 0,
        });
    }

    /// A message was left in the middle, to be written whole.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// The objects were alike but for `patches`. From now on whatever was different counts as different, so that
    /// objects which agree with the known one by chance take the same course.
    pub(super) fn finish(&mut self, fragments: &mut Fragments, patches: &[Patch]) {
        for step in &mut self.steps {
            match step {
                Step::Enter { fragment, .. } => fragments.vary(*fragment),
                Step::Value {
                    fragment, patch, ..
                } => {
                    fragments.vary(*fragment);
                    let place = patches.binary_search_by_key(fragment, |patch| patch.fragment);
                    match place {
                        Ok(place) => *patch = place as u32,
                        // One whose message was then written whole.
                        Err(_) => self.is_lost = true,
                    }
                }
                Step::Equal(_) | Step::Leave | Step::Unshown { .. } => {}
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
        !self.steps.is_empty() && self.steps_lead(known, other, patches).is_some()
    }

    fn steps_lead(&mut self, known: &[u8], other: &[u8], patches: &mut [Patch]) -> Option<()> {
        self.ends.clear();
        let (mut at, mut end) = (0, other.len());
        let known = |range: &Range<u32>| &known[range.start as usize..range.end as usize];
        // The field with this number that comes next in the present message.
        let field = |at: usize, end: usize, number: u32| {
            let found = Fields::from(&other[..end], at).next()?.ok()?;
            (found.number == number).then_some(found)
        };
        for step in &self.steps {
            match step {
                Step::Equal(range) => {
                    let equal = known(range);
                    if other[at..end].get(..equal.len())? != equal {
                        return None;
                    }
                    at += equal.len();
                }
                Step::Value {
                    row, key, patch, ..
                } => {
                    let found = field(at, end, u32::from(row.number))?;
                    if is_left_out(row, found.wire) {
                        return None;
                    }
                    if let Some(key) = key
                        && key_of(found.wire)? != known(key)
                    {
                        return None;
                    }
                    patches[*patch as usize].field = found.start as u32;
                    at = found.end;
                }
                Step::Enter { number, .. } => {
                    let found = field(at, end, *number)?;
                    let Wire::Bytes(inside) = found.wire else {
                        return None;
                    };
                    self.ends.push(end);
                    end = found.end;
                    at = end - inside.len();
                }
                Step::Leave => {
                    if at != end {
                        return None;
                    }
                    end = self.ends.pop()?;
                }
                Step::Unshown { number } => at = field(at, end, *number)?.end,
            }
        }
        (at == end).then_some(())
    }
}
