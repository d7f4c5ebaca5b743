//! What one object has different from another of the same shape.
//!
//! Two objects whose fields come in the same order, message by message, are shown alike except for values that
//! differ. Where the order differs inside of a message, that message is the value that differs.

use std::ops::Range;

use super::course::Course;
use super::patch::Patch;
use super::trace::{Fragment, Fragments, Link};
use super::value::{is_left_out, key_of};
use crate::protobuf::{Field as Found, Fields, Wire};
use crate::schema::{Field, Kind, Rule};

/// What a fragment costs that differs; one that does not earns 1. So about a quarter may differ.
const PRICE: i64 = 3;

/// What is lent at the beginning: names and times come first, and differ in every object.
const LENT: i64 = 20 * PRICE;

/// What the objects of a series are compared with.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) wire: Vec<u8>,
    pub(super) json: Vec<u8>,
    pub(super) fragments: Fragments,
    pub(super) first: Link,
    /// What was different in the object that was compared last, in the order of the text.
    pub(super) patches: Vec<Patch>,
    /// Where that was found.
    pub(super) course: Course,
}

impl Known {
    /// Fills `patches` with the values in which `other` differs, or in which an earlier object did. False when too many differ
    /// for patching to pay, or the object's own fields are others or in another order; a message inside it is then patched whole.
    ///
    /// Costs a pass over the equal bytes and some thirty instructions for each value that differs; half of that where `other`
    /// differs in the same places as the object before, which is looked for in a series only: for a pair it does not pay.
    pub(super) fn differences(&mut self, other: &[u8], is_series: bool) -> bool {
        if self.course.follow(&self.wire, other, &mut self.patches) {
            return true;
        }
        self.patches.clear();
        self.course.clear();
        let mut comparison = Comparison {
            known: &self.wire,
            fragments: &self.fragments,
            other,
            patches: &mut self.patches,
            course: &mut self.course,
            left: LENT,
            // No two places are so far apart: nothing is known to be equal.
            equal: Equal {
                shift: usize::MAX,
                end: 0,
            },
        };
        let is_alike = comparison.message(self.first, 0, 0, other.len()).is_ok();
        if is_alike {
            // JSON shows the fields of some messages in another order than they come.
            self.patches.sort_unstable_by_key(|patch| patch.fragment);
        }
        if is_alike && is_series {
            self.course.finish(&mut self.fragments, &self.patches);
        } else {
            self.course.clear();
        }
        is_alike
    }
}

/// Why two messages are not alike.
#[derive(Debug)]
enum Unlike {
    /// Their fields come in another order, or are shown by other rules.
    Shape,
    /// Too much differs.
    TooMuch,
}

/// Bytes that are known to be equal: from the present place in the known object up to `end`, where the other's
/// places are higher by `shift`.
struct Equal {
    shift: usize,
    end: usize,
}

struct Comparison<'a> {
    known: &'a [u8],
    fragments: &'a Fragments,
    other: &'a [u8],
    patches: &'a mut Vec<Patch>,
    course: &'a mut Course,
    /// What was earned by equal fragments and not yet paid for different ones.
    left: i64,
    equal: Equal,
}

impl<'a> Comparison<'a> {
    /// The fields of a message, which lie from `known` on in the known object, and from `other` to `end`.
    fn message(
        &mut self,
        first: Link,
        mut known: usize,
        mut other: usize,
        end: usize,
    ) -> Result<(), Unlike> {
        let fragments = self.fragments;
        let mut next = first;
        loop {
            // What is equal is passed over, but for what was different before and may soon be again.
            let (equal_until, from) = (self.equal_until(known, other), known);
            let (mut fragment, mut passed) = (fragments.get(next), 0);
            while let Some(equal) =
                fragment.filter(|it| it.end as usize <= equal_until && !it.varies)
            {
                known = equal.end as usize;
                passed += equal.count;
                next = equal.next;
                fragment = fragments.get(next);
            }
            other += known - from;
            self.course.equal(from, known);
            self.left += i64::from(passed);
            let Some(fragment) = fragment else {
                break;
            };
            let found = Fields::from(&self.other[..end], other).next();
            let Some(Ok(found)) = found else {
                return Err(Unlike::Shape);
            };
            match fragment.row {
                Some(row) if u32::from(row.number) == found.number => {
                    let differs = fragment.end as usize > equal_until;
                    self.value(next, fragment, row, known, found, differs)?;
                }
                None if Some(found.number) == self.known_field(known).map(|it| it.number) => {
                    self.course.unshown(found.number);
                }
                _ => return Err(Unlike::Shape),
            }
            other = found.end;
            known = fragment.end as usize;
            next = fragment.next;
        }
        match other == end {
            true => Ok(()),
            false => Err(Unlike::Shape),
        }
    }

    /// The field that begins at this place of the known object.
    fn known_field(&self, at: usize) -> Option<Found<'a>> {
        Fields::from(self.known, at).next()?.ok()
    }

    /// Where a part of the known object lies in it; a key that is not written lies nowhere.
    fn place(&self, part: &[u8]) -> Range<u32> {
        let start = match part {
            [] => 0,
            _ => part.as_ptr().addr() - self.known.as_ptr().addr(),
        };
        start as u32..(start + part.len()) as u32
    }

    /// A field that differs, or once did.
    fn value(
        &mut self,
        link: Link,
        fragment: &Fragment,
        row: &'static Field,
        known: usize,
        found: Found<'_>,
        differs: bool,
    ) -> Result<(), Unlike> {
        let is_inline = row.rule == Rule::Inline;
        // What JSON leaves out in one of them is not in the other's place.
        if !is_inline && (is_left_out(row, found.wire) || fragment.json.is_empty()) {
            return Err(Unlike::Shape);
        }
        let mut known_key = None;
        match (row.kind, found.wire) {
            (Kind::Object(_), Wire::Bytes(other)) => {
                let Some((known, Wire::Bytes(inside))) =
                    self.known_field(known).map(|field| (field.end, field.wire))
                else {
                    return Err(Unlike::Shape);
                };
                let known = known - inside.len();
                let (patches, left) = (self.patches.len(), self.left);
                let other = found.end - other.len();
                self.course.enter(link, found.number);
                match self.message(fragment.first, known, other, found.end) {
                    Err(Unlike::Shape) if !is_inline => {
                        self.patches.truncate(patches);
                        self.left = left;
                        // The next object may well have the usual shape again.
                        self.course.lose();
                    }
                    result => {
                        self.course.leave();
                        return result;
                    }
                }
            }
            (Kind::Object(_), _) => return Err(Unlike::Shape),
            (Kind::MapStr | Kind::MapBytes | Kind::MapQuantity, other) => {
                // Another key may have another place.
                let key = self.known_field(known).and_then(|field| key_of(field.wire));
                match key {
                    Some(known) if key_of(other) == Some(known) => {
                        known_key = Some(self.place(known))
                    }
                    _ => return Err(Unlike::Shape),
                }
            }
            _ => {}
        }
        if differs {
            self.left -= PRICE * i64::from(fragment.count);
        }
        if self.left < 0 {
            return Err(Unlike::TooMuch);
        }
        self.course.value(link, row, known_key);
        self.patches.push(Patch {
            fragment: link,
            field: found.start as u32,
        });
        Ok(())
    }

    /// Up to where the known object is as the other one, from these places on.
    #[inline]
    fn equal_until(&mut self, known: usize, other: usize) -> usize {
        let shift = other.wrapping_sub(known);
        if shift != self.equal.shift || known > self.equal.end {
            let common = common_prefix(&self.known[known..], &self.other[other..]);
            let end = known + common;
            self.equal = Equal { shift, end };
        }
        self.equal.end
    }
}

/// Bytes at the beginning of both that are equal.
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
