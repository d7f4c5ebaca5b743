//! Mutations of well-formed inputs, which give nearly well-formed ones.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Byte sequences that are special to parsers: limits of ranges, delimiters, nesting, invalid text.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"-1",
    b"0",
    b"9223372036854775808",
    b"1e309",
    b"NaN",
    b"null",
    b"[[[[[[[[",
    b"{\"\":",
    b"\"",
    b"'",
    b"\\u0000",
    b"\\ud800",
    b"\n",
    b",",
    b"=",
    b"%",
    b"..",
    b"\xc3\x28",
    "\u{202e}".as_bytes(),
];

/// A source of random mutations, which are a pure function of a seed and a number.
#[derive(Debug)]
pub struct Mutations(Xoshiro256PlusPlus);

impl Mutations {
    /// Returns the mutations with this number.
    pub fn new(seed: u64, number: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed << 32 | number))
    }

    /// Returns a random number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() as usize) % end.max(1)
    }

    /// Returns a random element of `all`.
    ///
    /// # Panics
    /// If `all` is empty.
    pub fn pick<'a, T: ?Sized>(&mut self, all: &'a [impl AsRef<T>]) -> &'a T {
        all[self.below(all.len())].as_ref()
    }

    /// Returns a random input of `corpus` with one to four changes.
    ///
    /// # Panics
    /// If `corpus` is empty.
    pub fn of(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.pick::<[u8]>(corpus).to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut input, corpus);
        }
        input
    }

    /// Changes an input in one place.
    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let until = at + self.below((input.len() - at + 1).min(33));
        match self.below(8) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.below(256) as u8,
            2 => drop(input.drain(at..until)),
            3 => {
                let part = input[at..until].to_vec();
                input.splice(at..at, part);
            }
            4 => input.truncate(at),
            5 => {
                let other = self.pick::<[u8]>(corpus);
                let from = self.below(other.len() + 1);
                input.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let word = self.pick::<[u8]>(WORDS);
                input.splice(at..at, word.iter().copied());
            }
        }
    }
}

/// Reads a number from an environment variable.
fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|error| panic!("{variable}={text}: {error}")),
        Err(_) => default,
    }
}

/// Returns the number of mutations: `FUZZ_MUTATIONS`, or 2,000.
///
/// # Panics
/// If the variable is not a number.
pub fn count() -> u64 {
    number("FUZZ_MUTATIONS", 2_000)
}

/// Returns the seed of all mutations: `FUZZ_SEED`, or 1.
///
/// # Panics
/// If the variable is not a number.
pub fn seed() -> u64 {
    number("FUZZ_SEED", 1)
}
