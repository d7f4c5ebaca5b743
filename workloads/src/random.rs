//! Reproducible random numbers: xoshiro256++ with a seed that depends on the purpose of the values.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Letters and digits of generated Kubernetes names, in byte order: no vowels, no `0`, `1`, `3`.
pub(crate) const NAME_LETTERS: &[u8; 27] = b"2456789bcdfghjklmnpqrstvwxz";

/// The purposes of random numbers. Each has its own stream, so that adding a purpose does not
/// change the numbers of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Namespaces = 1,
    Nodes,
    Groups,
    Objects,
    Payload,
    Operations,
    Arrivals,
    Incarnations,
    Changes,
    Writes,
    Steps,
    Keys,
    Mixes,
    Coins,
    Values,
    Sizes,
}

/// Returns the generator for item `i` of a stream.
pub(crate) fn generator(seed: u64, stream: Stream, i: u64) -> Xoshiro256PlusPlus {
    // Odd multipliers keep (seed, stream, i) distinct; the generator's SplitMix64 seeding mixes the
    // bits.
    let state = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add((stream as u64).wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(i.wrapping_mul(0x2545_f491_4f6c_dd1d));
    Xoshiro256PlusPlus::seed_from_u64(state)
}

/// Returns the generator for version `nth` of object `i`; 0 is the first version.
pub(crate) fn nth_generator(seed: u64, stream: Stream, i: u64, nth: u32) -> Xoshiro256PlusPlus {
    generator(seed ^ u64::from(nth).rotate_left(32), stream, i)
}

/// Returns a number below `bound` (which must not be 0), by multiplication: no loop, bias below
/// bound / 2⁶⁴.
pub(crate) fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Returns a number in (0, 1] of 53 random bits.
pub(crate) fn uniform(rng: &mut impl Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Returns toss number `n` of a fair coin.
#[must_use]
pub fn coin(seed: u64, n: u64) -> bool {
    generator(seed, Stream::Coins, n).next_u64() >> 63 == 1
}

/// Writes `value` in the letters of names, the most significant first, so that texts sort like
/// numbers.
pub(crate) fn put_name_letters(out: &mut [u8], mut value: u64) {
    for letter in out.iter_mut().rev() {
        *letter = NAME_LETTERS[(value % 27) as usize];
        value /= 27;
    }
}

/// Fills `out` with lower-case hexadecimal digits.
pub(crate) fn put_hex(out: &mut [u8], rng: &mut impl Rng) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for chunk in out.chunks_mut(16) {
        let mut bits = rng.next_u64();
        for digit in chunk {
            *digit = DIGITS[(bits & 15) as usize];
            bits >>= 4;
        }
    }
}

/// Returns a random (version 4) UUID as text.
pub(crate) fn uuid(rng: &mut impl Rng) -> [u8; 36] {
    let mut out = [b'-'; 36];
    let mut digits = [0; 32];
    put_hex(&mut digits, rng);
    digits[12] = b'4';
    digits[16] = b"89ab"[(rng.next_u64() & 3) as usize];
    let mut from = 0;
    for (start, end) in [(0, 8), (9, 13), (14, 18), (19, 23), (24, 36)] {
        let length = end - start;
        out[start..end].copy_from_slice(&digits[from..from + length]);
        from += length;
    }
    out
}

/// Appends `length` random bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, rng: &mut impl Rng, length: usize) {
    put_words(out, length, || rng.next_u64());
}

/// Appends `length` random letters from `a` to `p`: JSON does not escape them, gzip halves their
/// size.
pub(crate) fn put_letters(out: &mut Vec<u8>, rng: &mut impl Rng, length: usize) {
    put_words(out, length, || {
        (rng.next_u64() & 0x0f0f_0f0f_0f0f_0f0f) + 0x6161_6161_6161_6161
    });
}

fn put_words(out: &mut Vec<u8>, length: usize, mut word: impl FnMut() -> u64) {
    out.reserve(length);
    for _ in 0..length / 8 {
        out.extend_from_slice(&word().to_le_bytes());
    }
    out.extend_from_slice(&word().to_le_bytes()[..length % 8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_equals_its_golden_values() {
        let mut rng = generator(1, Stream::Objects, 0);
        assert_eq!(rng.next_u64(), 11_494_997_411_784_656_599);
    }

    #[test]
    fn uuids_are_of_version_4() {
        let text = uuid(&mut generator(1, Stream::Objects, 7));
        let text = std::str::from_utf8(&text).expect("digits");
        let dashes: Vec<_> = text.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!(dashes, [8, 13, 18, 23]);
        assert_eq!(text.as_bytes()[14], b'4', "version");
        assert!(b"89ab".contains(&text.as_bytes()[19]), "variant");
    }

    #[test]
    fn names_sort_like_numbers() {
        let name = |value| {
            let mut out = [0; 5];
            put_name_letters(&mut out, value);
            out
        };
        for value in 0..30_000 {
            assert!(name(value) < name(value + 1));
        }
    }

    #[test]
    fn payloads_have_their_length_and_letters() {
        for length in [0, 1, 7, 8, 9, 1000] {
            let (mut bytes, mut letters) = (Vec::new(), Vec::new());
            put_bytes(&mut bytes, &mut generator(1, Stream::Payload, 1), length);
            put_letters(&mut letters, &mut generator(1, Stream::Payload, 1), length);
            assert_eq!((bytes.len(), letters.len()), (length, length));
            assert!(letters.iter().all(|letter| (b'a'..=b'p').contains(letter)));
        }
    }
}
