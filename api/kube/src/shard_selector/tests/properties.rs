//! What holds of all texts, of all selectors and of all hashes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::ListOptions;

fn key() -> impl Strategy<Value = ShardKey> {
    prop_oneof![Just(ShardKey::Uid), Just(ShardKey::Namespace)]
}

fn range() -> impl Strategy<Value = ShardRange> {
    // Bounds that are close, far, aligned and extreme.
    let bound = prop_oneof![
        any::<u64>().prop_map(u128::from),
        (0_u128..=16).prop_map(|sixteenth| sixteenth << 60),
        (0_u128..4).prop_map(|below| END - below),
        0_u128..4,
    ];
    (bound.clone(), bound).prop_filter_map("an empty range", |(one, other)| {
        ShardRange::new(u64::try_from(one.min(other)).ok()?, one.max(other))
    })
}

fn selector() -> impl Strategy<Value = ShardSelector> {
    (key(), vec(range(), 1..8)).prop_map(|(key, ranges)| ShardSelector::from_ranges(key, ranges))
}

proptest! {
    #[test]
    fn reading_what_was_written_changes_nothing(selector in selector()) {
        prop_assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_hash_is_selected_when_a_range_holds_it(selector in selector(), hashes in vec(any::<u64>(), 8)) {
        let edges = selector.ranges().iter().flat_map(|range| {
            [range.first(), range.first().wrapping_sub(1), range.last(), range.last().wrapping_add(1)]
        });
        for hash in edges.chain(hashes) {
            let held = selector.ranges().iter().any(|range| range.contains(hash));
            prop_assert_eq!(selector.selects(hash), held, "{:#x}", hash);
        }
        let gaps = selector.spans().windows(2).all(|pair| pair[0].end() < u128::from(pair[1].first()));
        prop_assert!(gaps);
    }

    #[test]
    fn equal_shards_cover_each_hash_once(key in key(), shards in 1_u32..2_000, hash in any::<u64>()) {
        let count = NonZeroU32::new(shards).expect("some");
        let shards = ShardSelector::equal_shards(key, count);
        prop_assert_eq!(shards.len(), count.get() as usize);
        let ranges: Vec<_> = shards.iter().map(|shard| shard.ranges()[0]).collect();
        prop_assert_eq!((ranges[0].first(), ranges[ranges.len() - 1].end()), (0, END));
        let widths = ranges.iter().map(|range| range.end() - u128::from(range.first()));
        prop_assert!(widths.clone().max().unwrap_or_default() - widths.min().unwrap_or_default() <= 1);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end() == u128::from(pair[1].first())));
        prop_assert_eq!(shards.iter().filter(|shard| shard.selects(hash)).count(), 1);
    }

    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        settled(&text)?;
    }

    /// What a client may put into the parameter: any bytes, escaped or not, of which the query's reader makes text.
    #[test]
    fn no_bytes_are_too_odd(bytes in vec(any::<u8>(), 0..200), escaped in any::<bool>()) {
        let value = match escaped {
            true => form_urlencoded::byte_serialize(&bytes).collect(),
            false => String::from_utf8_lossy(&bytes).into_owned(),
        };
        if let Ok(options) = ListOptions::parse(&format!("shardSelector={value}")) {
            settled(&options.shard_selector)?;
        }
    }

    /// Words of the language in any order come closer to what the reader looks at.
    #[test]
    fn no_words_are_too_odd(words in vec(select(WORDS.to_vec()), 0..40)) {
        for joined in [words.concat(), words.join(" ")] {
            settled(&joined)?;
        }
    }

    /// A text that was right until somebody changed a little of it reaches what no heap of words does.
    #[test]
    fn no_slip_of_the_pen_is_too_odd(selector in selector(), slips in vec(slip(), 1..6)) {
        let mut text: Vec<char> = selector.to_string().chars().collect();
        for slip in slips {
            slip.into_text(&mut text);
        }
        settled(&text.into_iter().collect::<String>())?;
    }
}

/// A text is refused, or what is read of it is written as a text that reads the same, and is written so again.
fn settled(text: &str) -> Result<(), TestCaseError> {
    if let Ok(selector) = ShardSelector::parse(text) {
        let written = selector.to_string();
        let again = ShardSelector::parse(&written);
        prop_assert_eq!(again.as_ref().map(ToString::to_string), Ok(written));
        prop_assert_eq!(again, Ok(selector));
    }
    Ok(())
}

/// A small change of a text, at a place that is taken modulo its length.
#[derive(Debug, Clone)]
enum Slip {
    /// So many characters are lost.
    Lost(Index, usize),
    /// So many characters are there twice.
    Twice(Index, usize),
    /// Another character.
    Changed(Index, char),
    /// A word too many.
    Added(Index, &'static str),
    /// The two halves have changed places.
    Turned(Index),
}

fn slip() -> impl Strategy<Value = Slip> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 1_usize..20).prop_map(|(at, len)| Slip::Lost(at, len)),
        (at(), 1_usize..80).prop_map(|(at, len)| Slip::Twice(at, len)),
        (at(), any::<char>()).prop_map(|(at, character)| Slip::Changed(at, character)),
        (at(), select(WORDS.to_vec())).prop_map(|(at, word)| Slip::Added(at, word)),
        at().prop_map(Slip::Turned),
    ]
}

impl Slip {
    fn into_text(self, text: &mut Vec<char>) {
        let place = |at: Index| at.index(text.len() + 1);
        match self {
            Self::Lost(at, len) => {
                let at = place(at);
                text.drain(at..text.len().min(at + len));
            }
            Self::Twice(at, len) => {
                let at = place(at);
                let again = text[at..text.len().min(at + len)].to_vec();
                text.splice(at..at, again);
            }
            Self::Changed(at, character) => {
                let at = place(at);
                text.splice(at..text.len().min(at + 1), [character]);
            }
            Self::Added(at, word) => {
                let at = place(at);
                text.splice(at..at, word.chars());
            }
            Self::Turned(at) => {
                let at = place(at);
                text.rotate_left(at);
            }
        }
    }
}

const WORDS: [&str; 40] = [
    "shardRange",
    "(",
    ")",
    "object",
    ".",
    "metadata",
    "uid",
    "namespace",
    ",",
    "'",
    "\"",
    "'''",
    "0x",
    "0",
    "8000000000000000",
    "'0x0000000000000000'",
    "'0x8000000000000000'",
    "'0x10000000000000000'",
    "||",
    "|",
    "&&",
    "!",
    "-",
    "+",
    "in",
    "?",
    ":",
    "[",
    "]",
    "{",
    "}",
    "true",
    "1e",
    ".5",
    "r'",
    "\\",
    "\\x4",
    "é",
    "//",
    "\n",
];
