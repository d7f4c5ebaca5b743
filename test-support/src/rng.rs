//! Random choices that are the same in every run.

/// `splitmix64`, with its state, which is initially the seed.
#[derive(Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    /// Returns one of `choices`, which must not be empty.
    ///
    /// # Panics
    /// If they are.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns true in one of `n` calls.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
