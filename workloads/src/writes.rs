//! Writes by number that change objects, delete them and create them again, and say what each must look like to a watcher.
//!
//! A lane writes objects that no other lane does, one after the other, so that the order of the writes to an object is the
//! order of this sequence, however many lanes there are.

use std::collections::HashMap;

use crate::data_set::Version;
use crate::random::{Stream, below, generator};
use crate::scenario::Writes;

/// Objects of a lane that are deleted and created again: few, so that each goes through it several times.
const CHURNED: u64 = 64;

/// What a write does to its object, as a watcher sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// ADDED.
    Created,
    /// MODIFIED.
    Changed,
    /// DELETED; the write's version is the last that there was.
    Deleted,
}

/// One write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Which object of the data set.
    pub object: u64,
    /// Its state after the write; before it, for a deletion.
    pub version: Version,
    /// What it does.
    pub effect: Effect,
}

/// The writes of one lane, in order. Never ends.
#[derive(Debug)]
pub struct Lane {
    seed: u64,
    lane: u64,
    lanes: u64,
    /// Objects of the data set that are this lane's.
    objects: u64,
    writes: Writes,
    number: u64,
    /// Objects that were written: their version, and whether they are there.
    states: HashMap<u64, (Version, bool)>,
}

impl Lane {
    /// The writes of lane number `lane` of `lanes` to a data set of `objects`.
    ///
    /// # Panics
    /// `lane` is not below `lanes`, or there is no object for it.
    #[must_use]
    pub fn new(seed: u64, objects: u64, lane: u64, lanes: u64, writes: Writes) -> Self {
        assert!(
            lane < lanes && lane < objects,
            "lane {lane} of {lanes} over {objects} objects"
        );
        Self {
            seed,
            lane,
            lanes,
            objects: (objects - lane).div_ceil(lanes),
            writes,
            number: 0,
            states: HashMap::new(),
        }
    }

    fn effect(&self, is_there: bool, chance: u64) -> Effect {
        match (self.writes, is_there, chance) {
            (Writes::Changes | Writes::Patches, ..) | (Writes::Churn, true, 1..) => Effect::Changed,
            (Writes::Churn, true, 0) => Effect::Deleted,
            (Writes::Churn, false, _) => Effect::Created,
        }
    }
}

impl Iterator for Lane {
    type Item = Write;

    fn next(&mut self) -> Option<Write> {
        let sequence = self.number * self.lanes + self.lane;
        let mut random = generator(self.seed, Stream::Writes, sequence);
        self.number += 1;
        let among = match self.writes {
            Writes::Changes | Writes::Patches => self.objects,
            Writes::Churn => self.objects.min(CHURNED),
        };
        // Spread over the whole lane, not its beginning.
        let place = below(&mut random, among) * (self.objects / among);
        let object = place * self.lanes + self.lane;
        let before = self.states.get(&object).copied();
        let (mut version, is_there) = before.unwrap_or((Version::default(), true));
        let effect = self.effect(is_there, below(&mut random, 3));
        match effect {
            Effect::Created => version.incarnation += 1,
            Effect::Changed => version.change += 1,
            Effect::Deleted => {}
        }
        self.states
            .insert(object, (version, effect != Effect::Deleted));
        Some(Write {
            object,
            version,
            effect,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lanes_share_no_object_and_reach_all_of_theirs() {
        let mut seen = HashMap::new();
        for lane in 0..3 {
            for write in Lane::new(1, 10, lane, 3, Writes::Changes).take(200) {
                assert_eq!(write.object % 3, lane);
                *seen.entry(write.object).or_insert(0) += 1;
            }
        }
        assert_eq!(seen.len(), 10);
    }

    proptest! {
        #[test]
        fn an_object_is_created_only_when_it_is_gone(seed: u64, objects in 4..2_000_u64) {
            let mut states: HashMap<u64, (Version, bool)> = HashMap::new();
            let mut effects = [0; 3];
            for write in Lane::new(seed, objects, 3, 4, Writes::Churn).take(600) {
                let state = states.entry(write.object).or_insert((Version::default(), true));
                prop_assert!(write.object < objects);
                prop_assert_eq!(write.effect == Effect::Created, !state.1);
                match write.effect {
                    Effect::Created => prop_assert_eq!(write.version.incarnation, state.0.incarnation + 1),
                    Effect::Changed => prop_assert_eq!(write.version.change, state.0.change + 1),
                    Effect::Deleted => prop_assert_eq!(write.version, state.0),
                }
                *state = (write.version, write.effect != Effect::Deleted);
                effects[write.effect as usize] += 1;
            }
            prop_assert!(effects.iter().all(|&n| n > 50), "{:?}", effects);
        }
    }
}
