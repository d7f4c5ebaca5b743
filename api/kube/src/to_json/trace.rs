//! Where the fields of an object lie on both wires.

use std::ops::Range;

use crate::schema::Field;

/// Told of every field while an object is written, of those first that another one holds.
///
/// Fields lie on the wire without gaps, so where one ends says where the next begins.
pub(super) trait Trace {
    /// To be asked for before a field's value is written, for [`Self::field`].
    #[inline]
    fn mark(&self) -> usize {
        0
    }

    /// A field, or one value of a list or map, was written: `end` is the address behind it on the wire, `json`
    /// its value in the text, empty when JSON does not show it. `row` is none for a field that the schema does
    /// not know.
    #[inline]
    fn field(
        &mut self,
        _mark: usize,
        _end: usize,
        _row: Option<&'static Field>,
        _json: Range<usize>,
    ) {
    }

    /// A message was copied to bring its fields in order: the addresses told from now on are not those of the original.
    fn lost(&mut self) {}
}

/// Ignores all that it is told, where only the text is wanted.
pub(super) struct Untraced;

impl Trace for Untraced {}

/// One field, or one value of a list or map.
#[derive(Debug)]
pub(super) struct Fragment {
    /// None when the schema does not know it.
    pub(super) row: Option<&'static Field>,
    /// Offset behind it on the wire.
    pub(super) end: u32,
    /// Its value in the text; empty when JSON does not show it.
    pub(super) json: Range<u32>,
    /// The first fragment in it by the order of the wire, and the one behind it in its own message.
    pub(super) first: Link,
    pub(super) next: Link,
    /// Fragments in it, itself among them.
    pub(super) count: u32,
    /// Whether some object had another value here, or in it.
    pub(super) varies: bool,
}

/// The place of a fragment, [`END`] for none.
pub(super) type Link = u32;

/// Behind the last fragment of a message.
const END: Link = Link::MAX;

/// Every fragment of an object.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// In the order of the text, each behind those in it.
    all: Vec<Fragment>,
    /// Those whose message is not written to its end, those of one message side by side.
    open: Vec<Link>,
    /// Whether they are of no use: see [`Trace::lost`].
    lost: bool,
}

impl Fragments {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.open.clear();
        self.lost = false;
    }

    pub(super) fn get(&self, at: Link) -> Option<&Fragment> {
        self.all.get(at as usize)
    }

    /// Notes that some object has another value there.
    pub(super) fn vary(&mut self, at: Link) {
        self.all[at as usize].varies = true;
    }

    /// The first fragment of the object itself; none when it was not seen whole.
    pub(super) fn finish(&mut self) -> Option<Link> {
        let (first, _) = self.close(0);
        (!self.lost).then_some(first)
    }

    /// Links the fragments of a message, which are the open ones from `mark` on: the first of them by the order
    /// of the wire, and how many are in the message.
    fn close(&mut self, mark: usize) -> (Link, u32) {
        let Self { all, open, .. } = self;
        let siblings = &mut open[mark..];
        let Some(&oldest) = siblings.first() else {
            return (END, 0);
        };
        let count = all.len() as u32 - (oldest + 1 - all[oldest as usize].count);
        // They come as JSON shows them.
        let place = |link: &Link| all[*link as usize].end;
        if !siblings.is_sorted_by_key(place) {
            siblings.sort_unstable_by_key(place);
        }
        for pair in siblings.windows(2) {
            all[pair[0] as usize].next = pair[1];
        }
        let first = siblings[0];
        open.truncate(mark);
        (first, count)
    }
}

/// Notes the fragments of an object of less than 4 GiB.
#[derive(Debug)]
pub(super) struct Tracer<'f> {
    fragments: &'f mut Fragments,
    /// Address of the object.
    wire: usize,
    /// Offset of its text.
    json: usize,
}

impl<'f> Tracer<'f> {
    /// Of `object`, whose text begins at the offset `json`.
    pub(super) fn new(fragments: &'f mut Fragments, object: &[u8], json: usize) -> Self {
        fragments.clear();
        Self {
            fragments,
            wire: object.as_ptr().addr(),
            json,
        }
    }
}

impl Trace for Tracer<'_> {
    #[inline]
    fn mark(&self) -> usize {
        self.fragments.open.len()
    }

    #[inline]
    fn field(&mut self, mark: usize, end: usize, row: Option<&'static Field>, json: Range<usize>) {
        let (first, inside) = self.fragments.close(mark);
        let link = self.fragments.all.len() as Link;
        self.fragments.open.push(link);
        self.fragments.all.push(Fragment {
            row,
            // Of a message that was put in order it means nothing, and is not used.
            end: end.wrapping_sub(self.wire) as u32,
            json: (json.start - self.json) as u32..(json.end - self.json) as u32,
            first,
            next: END,
            count: inside + 1,
            varies: false,
        });
    }

    fn lost(&mut self) {
        self.fragments.lost = true;
    }
}
