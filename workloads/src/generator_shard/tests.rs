//! Tests that the shards of a load are disjoint and together are the whole load.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Arrivals, Profile};

#[test]
fn a_shard_is_read_as_it_is_written_and_garbage_is_refused() {
    let shard: GeneratorShard = "3/8".parse().expect("a shard");
    assert_eq!((shard.index(), shard.count()), (3, 8));
    assert_eq!(shard.to_string(), "3/8");
    assert_eq!("0/1".parse(), Ok(GeneratorShard::WHOLE));
    let refused = |text: &str| {
        let refused = text.parse::<GeneratorShard>();
        refused.expect_err(text).to_string()
    };
    assert_eq!(
        refused("8/8"),
        "generator 8 of 8: their numbers are from 0 to 7"
    );
    assert!(refused("0/0").contains("of 0 generators"));
    for text in [
        "",
        "/",
        "3",
        "3/",
        "/8",
        "a/8",
        "3/b",
        "-1/8",
        "+1/8",
        "1.5/8",
        "3/8/9",
        "3 / 8",
        "1/99999999999",
    ] {
        assert!(refused(text).contains("is not I/N, as 0/8"), "{text}");
    }
}

/// Returns every shard of `count` generators.
fn shards(count: u32) -> impl Iterator<Item = GeneratorShard> {
    let count = NonZeroU32::new(count).expect("one at least");
    (0..count.get()).map(move |index| GeneratorShard::new(index, count).expect("below the count"))
}

fn profiles() -> impl Strategy<Value = Profile> {
    let seconds = |s: u64| Duration::from_secs(s);
    let rate = 1.0..2_000.0_f64;
    prop_oneof![
        rate.clone().prop_map(Profile::Poisson),
        rate.clone().prop_map(Profile::Constant),
        (rate.clone(), rate.clone(), 1..10_u64).prop_map(move |(from, to, s)| Profile::Ramp {
            from,
            to,
            within: seconds(s),
        }),
        (prop::collection::vec(rate, 1..4), any::<bool>()).prop_map(move |(rates, shuffled)| {
            Profile::Steps {
                rates,
                each: seconds(1),
                shuffled,
            }
        }),
        (1..50_u32, 1..20_u64).prop_map(|(size, ms)| Profile::Burst {
            size,
            every: Duration::from_millis(10 * ms),
        }),
    ]
}

/// Returns the operations of one connection, each with its number and its intended start.
fn operations(
    profile: &Profile,
    seed: u64,
    connection: u32,
    connections: u32,
) -> impl Iterator<Item = (u64, Duration)> {
    let (connection, connections) = (u64::from(connection), u64::from(connections));
    let numbers = (connection..).step_by(connections as usize);
    numbers.zip(Arrivals::new(profile, seed, 1, connection, connections))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_number_belongs_to_one_shard(count in 1..40_u32, total in 0..500_u32) {
        let mut all: Vec<u32> = shards(count).flat_map(|shard| shard.numbers(total)).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..total).collect::<Vec<_>>());
        // The sizes of shards differ by at most one.
        let sizes: Vec<usize> = shards(count).map(|shard| shard.numbers(total).count()).collect();
        let (least, most) = (sizes.iter().min(), sizes.iter().max());
        prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
    }

    #[test]
    fn the_shards_of_a_schedule_make_the_operations_of_the_whole_at_the_same_times(
        profile in profiles(),
        seed in any::<u64>(),
        count in 1..9_u32,
        more in 0..8_u32,
    ) {
        let connections = count + more;
        let until = Duration::from_millis(200);
        let of = |connections_of_it: &mut dyn Iterator<Item = u32>| {
            let mut all: Vec<(u64, Duration)> = Vec::new();
            for connection in connections_of_it {
                let operations = operations(&profile, seed, connection, connections);
                all.extend(operations.take_while(|(_, start)| *start < until).take(500));
            }
            all
        };
        let mut whole = of(&mut (0..connections));
        let mut together = Vec::new();
        for shard in shards(count) {
            together.extend(of(&mut shard.numbers(connections)));
        }
        whole.sort_unstable();
        together.sort_unstable();
        prop_assert_eq!(&together, &whole);
        together.dedup_by_key(|(number, _)| *number);
        prop_assert_eq!(together.len(), whole.len(), "a number was given twice");
    }

    #[test]
    fn the_shards_of_a_sequence_have_each_element_once(
        profile in profiles(),
        seed in any::<u64>(),
        count in 1..9_u32,
    ) {
        let starts = || Arrivals::new(&profile, seed, 0, 0, 1).take(200).enumerate();
        let mut together: Vec<_> = shards(count).flat_map(|shard| shard.of(starts())).collect();
        together.sort_unstable();
        prop_assert_eq!(together, starts().collect::<Vec<_>>());
    }
}
