//! Sequences of writes that change, delete and recreate objects, with the event that a watcher must
//! receive for each.
//!
//! Each writer has its own objects and writes one at a time. The order of the writes to an object
//! is therefore that of this sequence, for any number of writers.

use std::collections::HashMap;

use crate::data_set::Version;
use crate::random::{Stream, below, generator};
use crate::scenario::Writes;

/// Number of a writer's objects that are deleted and created again. It is small so that this
/// happens to each of them several times.
const CHURNED_OBJECTS: u64 = 64;

/// The effect of a write: the type of a watcher's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// ADDED.
    Created,
    /// MODIFIED.
    Changed,
    /// DELETED; the write's version is the last one.
    Deleted,
}

/// One write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Number of the object in the data set.
    pub object: u64,
    /// The object's version after the write, or before a deletion.
    pub version: Version,
    /// The effect.
    pub effect: Effect,
}

/// The infinite sequence of writes of one writer.
#[derive(Debug)]
pub struct WriterSequence {
    seed: u64,
    writer: u64,
    writers: u64,
    /// Number of objects of this writer.
    objects: u64,
    writes: Writes,
    number: u64,
    /// The version of each written object, and whether the object exists.
    states: HashMap<u64, (Version, bool)>,
}

impl WriterSequence {
    /// Returns the writes of writer `writer` of `writers` to a data set of `objects`.
    ///
    /// # Panics
    /// If `writer` is not below `writers`, or the writer has no object.
    #[must_use]
    pub fn new(seed: u64, objects: u64, writer: u64, writers: u64, writes: Writes) -> Self {
        assert!(
            writer < writers && writer < objects,
            "writer {writer} of {writers} over {objects} objects"
        );
        Self {
            seed,
            writer,
            writers,
            objects: (objects - writer).div_ceil(writers),
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

impl Iterator for WriterSequence {
    type Item = Write;

    fn next(&mut self) -> Option<Write> {
        let sequence = self.number * self.writers + self.writer;
        let mut random = generator(self.seed, Stream::Writes, sequence);
        self.number += 1;
        let among = match self.writes {
            Writes::Changes | Writes::Patches => self.objects,
            Writes::Churn => self.objects.min(CHURNED_OBJECTS),
        };
        // Spreads the churned objects over all of the writer's objects.
        let place = below(&mut random, among) * (self.objects / among);
        let object = place * self.writers + self.writer;
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
    fn writers_write_disjoint_objects_and_all_of_them() {
        let mut seen = HashMap::new();
        for writer in 0..3 {
            for write in WriterSequence::new(1, 10, writer, 3, Writes::Changes).take(200) {
                assert_eq!(write.object % 3, writer);
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
            for write in WriterSequence::new(seed, objects, 3, 4, Writes::Churn).take(600) {
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
