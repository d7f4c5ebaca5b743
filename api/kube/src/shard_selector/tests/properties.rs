//! Properties that hold for all texts, selectors and hashes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::ListOptions;

fn key() -> impl Strategy<Value = ShardKey> {
    prop_oneof![Just(ShardKey::Uid), Just(ShardKey::Namespace)]
}

fn range() -> impl Strategy<Value = ShardRange> {
    // Bounds that are close together, far apart, aligned, or extreme.
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
    fn a_written_selector_is_read_back(selector in selector()) {
        prop_assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_hash_is_selected_when_a_range_contains_it(selector in selector(), hashes in vec(any::<u64>(), 8)) {
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
    fn any_text_is_parsed_or_rejected(text in any::<String>()) {
        check_parse(&text)?;
    }

    /// A client may send any bytes as the parameter, escaped or not. After the query is decoded,
    /// the value is UTF-8.
    #[test]
    fn any_bytes_are_parsed_or_rejected(bytes in vec(any::<u8>(), 0..200), escaped in any::<bool>()) {
        let value = match escaped {
            true => form_urlencoded::byte_serialize(&bytes).collect(),
            false => String::from_utf8_lossy(&bytes).into_owned(),
        };
        if let Ok(options) = ListOptions::parse(&format!("shardSelector={value}")) {
            check_parse(&options.shard_selector)?;
        }
    }

    /// Random sequences of the language's tokens reach more of the parser than random text.
    #[test]
    fn any_tokens_are_parsed_or_rejected(words in vec(select(WORDS.to_vec()), 0..40)) {
        for joined in [words.concat(), words.join(" ")] {
            check_parse(&joined)?;
        }
    }

    /// A valid text with small changes reaches parts of the parser that random tokens do not.
    #[test]
    fn any_small_change_is_parsed_or_rejected(selector in selector(), changes in vec(change(), 1..6)) {
        let mut text: Vec<char> = selector.to_string().chars().collect();
        for slip in changes {
            slip.into_text(&mut text);
        }
        check_parse(&text.into_iter().collect::<String>())?;
    }
}

/// Checks that a text is rejected, or that its canonical form parses to the same selector and is
/// its own canonical form.
fn check_parse(text: &str) -> Result<(), TestCaseError> {
    if let Ok(selector) = ShardSelector::parse(text) {
        let written = selector.to_string();
        let again = ShardSelector::parse(&written);
        prop_assert_eq!(again.as_ref().map(ToString::to_string), Ok(written));
        prop_assert_eq!(again, Ok(selector));
    }
    Ok(())
}

/// A small change of a text, at a position that is taken modulo the text's length.
#[derive(Debug, Clone)]
enum Change {
    /// Removes this number of characters.
    Lost(Index, usize),
    /// Repeats this number of characters.
    Twice(Index, usize),
    /// Replaces a character.
    Changed(Index, char),
    /// Inserts a token.
    Added(Index, &'static str),
    /// Swaps the two halves.
    Turned(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 1_usize..20).prop_map(|(at, len)| Change::Lost(at, len)),
        (at(), 1_usize..80).prop_map(|(at, len)| Change::Twice(at, len)),
        (at(), any::<char>()).prop_map(|(at, character)| Change::Changed(at, character)),
        (at(), select(WORDS.to_vec())).prop_map(|(at, word)| Change::Added(at, word)),
        at().prop_map(Change::Turned),
    ]
}

impl Change {
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
