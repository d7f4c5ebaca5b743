//! A stored value: in one piece or, when large, in two.

use std::cmp::Ordering;
use std::fmt;

use bytes::BufMut;

/// A borrowed value. Comparisons do not depend on where it is split.
#[derive(Clone, Copy, Default)]
pub struct Value<'a>([&'a [u8]; 2]);

impl<'a> Value<'a> {
    pub(super) fn of(pieces: [&'a [u8]; 2]) -> Self {
        Self(pieces)
    }

    /// Returns the bytes in order. The second piece is usually empty.
    pub fn pieces(self) -> [&'a [u8]; 2] {
        self.0
    }

    /// Returns the length, bytes.
    pub fn len(self) -> usize {
        self.0[0].len() + self.0[1].len()
    }

    /// Returns whether the value is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns a copy in one piece.
    pub fn to_vec(self) -> Vec<u8> {
        self.0.concat()
    }

    pub(super) fn put_to(self, buf: &mut impl BufMut) {
        self.0.into_iter().for_each(|piece| buf.put_slice(piece));
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self([bytes, &[]])
    }
}

impl Ord for Value<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let ([mut a, mut more_of_a], [mut b, mut more_of_b]) = (self.0, other.0);
        loop {
            if a.is_empty() {
                a = std::mem::take(&mut more_of_a);
            }
            if b.is_empty() {
                b = std::mem::take(&mut more_of_b);
            }
            let both = a.len().min(b.len());
            if both == 0 {
                return a.len().cmp(&b.len());
            }
            let ((now_a, later_a), (now_b, later_b)) = (a.split_at(both), b.split_at(both));
            match now_a.cmp(now_b) {
                Ordering::Equal => (a, b) = (later_a, later_b),
                unequal => return unequal,
            }
        }
    }
}

impl PartialOrd for Value<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value<'_> {}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
