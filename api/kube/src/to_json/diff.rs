//! Compares an object with another of the same structure.
//!
//! Two objects whose messages have the same fields in the same order have the same JSON, except for
//! the values that differ. If the order differs inside a message, that whole message is the value
//! that differs.

use std::ops::Range;

use super::field_map::{EntryIndex, FieldEntry, FieldMap};
use super::patch::Patch;
use super::predicted_diff::PredictedDiff;
use super::value::{is_omitted, key_of};
use crate::protobuf::{Field as Found, Fields, WireValue};
use crate::schema::{Field, Kind, Rule};

/// Cost of a field that differs; an equal field earns 1. So about a quarter of the fields may
/// differ.
const DIFFERENCE_COST: i64 = 3;

/// The initial budget: names and times come first and differ in every object.
const INITIAL_BUDGET: i64 = 20 * DIFFERENCE_COST;

/// The object that later ones are compared with, and its JSON.
#[derive(Debug, Default)]
pub(super) struct DiffBase {
    pub(super) wire: Vec<u8>,
    pub(super) json: Vec<u8>,
    pub(super) field_map: FieldMap,
    pub(super) first: EntryIndex,
    /// The differences of the object that was compared last, in text order.
    pub(super) patches: Vec<Patch>,
    /// The predicted positions of the next object's differences.
    pub(super) prediction: PredictedDiff,
}

impl DiffBase {
    /// Fills `patches` with the values in which `other` differs from the base, or in which an
    /// earlier object did. Returns false if so many values differ that patching does not pay, or if
    /// the top-level fields are different or in another order. If that is so only inside a nested
    /// message, the whole message becomes a patch.
    ///
    /// Costs a pass over the equal bytes and some thirty instructions for each value that differs;
    /// half of that if `other` differs in the same places as the preceding object. Such a
    /// prediction is recorded only if `is_series`: for a pair of objects it does not pay.
    pub(super) fn differences(&mut self, other: &[u8], is_series: bool) -> bool {
        if self.prediction.apply(&self.wire, other, &mut self.patches) {
            return true;
        }
        self.patches.clear();
        self.prediction.clear();
        let mut comparison = Comparison {
            base: &self.wire,
            field_map: &self.field_map,
            other,
            patches: &mut self.patches,
            prediction: &mut self.prediction,
            budget: INITIAL_BUDGET,
            // An impossible shift, because nothing is known to be equal yet.
            equal: Equal {
                shift: usize::MAX,
                end: 0,
            },
        };
        let is_alike = comparison.message(self.first, 0, 0, other.len()).is_ok();
        if is_alike {
            // The fields of some messages are in another order in JSON than on the wire.
            self.patches.sort_unstable_by_key(|patch| patch.entry);
        }
        if is_alike && is_series {
            self.prediction.finish(&mut self.field_map, &self.patches);
        } else {
            self.prediction.clear();
        }
        is_alike
    }
}

/// The reason why two messages cannot be patched.
#[derive(Debug)]
enum Mismatch {
    /// Their fields are different, or in another order.
    Structure,
    /// Too many values differ.
    TooMuch,
}

/// A range of bytes that are known to be equal: from the current position in the base up to `end`.
/// Positions in the other object are higher by `shift`.
struct Equal {
    shift: usize,
    end: usize,
}

struct Comparison<'a> {
    base: &'a [u8],
    field_map: &'a FieldMap,
    other: &'a [u8],
    patches: &'a mut Vec<Patch>,
    prediction: &'a mut PredictedDiff,
    /// The credit earned by equal fields and not yet spent on different ones.
    budget: i64,
    equal: Equal,
}

impl<'a> Comparison<'a> {
    /// Compares the fields of a message. In the base they begin at `base`; in the other object they
    /// extend from `other` to `end`.
    fn message(
        &mut self,
        first: EntryIndex,
        mut base: usize,
        mut other: usize,
        end: usize,
    ) -> Result<(), Mismatch> {
        let field_map = self.field_map;
        let mut next = first;
        loop {
            // Skips equal fields, except those that differed before and may differ again.
            let (equal_until, from) = (self.equal_until(base, other), base);
            let (mut entry, mut passed) = (field_map.get(next), 0);
            while let Some(equal) =
                entry.filter(|it| it.end as usize <= equal_until && !it.is_varying)
            {
                base = equal.end as usize;
                passed += equal.count;
                next = equal.next;
                entry = field_map.get(next);
            }
            other += base - from;
            self.prediction.equal(from, base);
            self.budget += i64::from(passed);
            let Some(entry) = entry else {
                break;
            };
            let found = Fields::from(&self.other[..end], other).next();
            let Some(Ok(found)) = found else {
                return Err(Mismatch::Structure);
            };
            match entry.spec {
                Some(spec) if u32::from(spec.number) == found.number => {
                    let differs = entry.end as usize > equal_until;
                    self.value(next, entry, spec, base, found, differs)?;
                }
                None if Some(found.number) == self.base_field(base).map(|it| it.number) => {
                    self.prediction.skip_field(found.number);
                }
                _ => return Err(Mismatch::Structure),
            }
            other = found.end;
            base = entry.end as usize;
            next = entry.next;
        }
        match other == end {
            true => Ok(()),
            false => Err(Mismatch::Structure),
        }
    }

    /// Returns the field that begins at this position in the base.
    fn base_field(&self, at: usize) -> Option<Found<'a>> {
        Fields::from(self.base, at).next()?.ok()
    }

    /// Returns the range of a slice of the base; 0..0 for a key that is absent on the wire.
    fn place(&self, part: &[u8]) -> Range<u32> {
        let start = match part {
            [] => 0,
            _ => part.as_ptr().addr() - self.base.as_ptr().addr(),
        };
        start as u32..(start + part.len()) as u32
    }

    /// Compares a field that differs, or that differed in an earlier object.
    fn value(
        &mut self,
        index: EntryIndex,
        entry: &FieldEntry,
        spec: &'static Field,
        base: usize,
        found: Found<'_>,
        differs: bool,
    ) -> Result<(), Mismatch> {
        let is_inline = spec.rule == Rule::Inline;
        // If JSON omits the field in one of the objects, there is no value to replace.
        if !is_inline && (is_omitted(spec, found.wire) || entry.json.is_empty()) {
            return Err(Mismatch::Structure);
        }
        let mut base_key = None;
        match (spec.kind, found.wire) {
            (Kind::Object(_), WireValue::Bytes(other)) => {
                let Some((base, WireValue::Bytes(inside))) =
                    self.base_field(base).map(|field| (field.end, field.wire))
                else {
                    return Err(Mismatch::Structure);
                };
                let base = base - inside.len();
                let (patches, budget) = (self.patches.len(), self.budget);
                let other = found.end - other.len();
                self.prediction.enter(index, found.number);
                match self.message(entry.first, base, other, found.end) {
                    Err(Mismatch::Structure) if !is_inline => {
                        self.patches.truncate(patches);
                        self.budget = budget;
                        // The next object may have the usual structure again, so no prediction is
                        // kept.
                        self.prediction.mark_incomplete();
                    }
                    result => {
                        self.prediction.leave();
                        return result;
                    }
                }
            }
            (Kind::Object(_), _) => return Err(Mismatch::Structure),
            (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, other) => {
                // An entry with another key may have another position in the text.
                let key = self.base_field(base).and_then(|field| key_of(field.wire));
                match key {
                    Some(base) if key_of(other) == Some(base) => base_key = Some(self.place(base)),
                    _ => return Err(Mismatch::Structure),
                }
            }
            _ => {}
        }
        if differs {
            self.budget -= DIFFERENCE_COST * i64::from(entry.count);
        }
        if self.budget < 0 {
            return Err(Mismatch::TooMuch);
        }
        self.prediction.value(index, spec, base_key);
        self.patches.push(Patch {
            entry: index,
            field: found.start as u32,
        });
        Ok(())
    }

    /// Returns the position in the base up to which the objects are equal, starting at these
    /// positions.
    #[inline]
    fn equal_until(&mut self, base: usize, other: usize) -> usize {
        let shift = other.wrapping_sub(base);
        if shift != self.equal.shift || base > self.equal.end {
            let common = common_prefix(&self.base[base..], &self.other[other..]);
            let end = base + common;
            self.equal = Equal { shift, end };
        }
        self.equal.end
    }
}

/// Returns the length of the common prefix.
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let mut equal = 0;
    for (one, other) in one
        .as_chunks::<32>()
        .0
        .iter()
        .zip(other.as_chunks::<32>().0)
    {
        if one != other {
            break;
        }
        equal += 32;
    }
    let (one, other) = (&one[equal..], &other[equal..]);
    for (one, other) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return equal + differing.trailing_zeros() as usize / 8;
        }
        equal += 8;
    }
    let rest = one.len().min(other.len()) / 8 * 8;
    let rest = one[rest..].iter().zip(&other[rest..]);
    equal + rest.take_while(|(one, other)| one == other).count()
}
