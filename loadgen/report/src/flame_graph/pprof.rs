//! Profiles of Go servers: the messages of pprof's `profile.proto`, limited to the fields that
//! stacks need.

use std::collections::HashMap;

use prost::Message;

use super::stacks::{LARGEST, Stacks, StacksError, plain};

/// The name of the value that counts samples. A CPU profile has it in addition to the time.
const SAMPLES: &str = "samples";

/// The message `perftools.profiles.Profile`.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
}

/// The meaning of the n-th value of each sample.
#[derive(Clone, PartialEq, Message)]
struct ValueType {
    /// The value's name: an index of the string table.
    #[prost(int64, tag = "1")]
    kind: i64,
}

/// One stack.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The locations: first the function that was on a CPU, then its callers.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

/// A code location in the program.
#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    /// The function at this location. If functions were inlined, there are several, the innermost
    /// first.
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    /// An index of the string table.
    #[prost(int64, tag = "2")]
    name: i64,
}

/// Returns the stacks of a decompressed profile.
pub(super) fn stacks(bytes: &[u8]) -> Result<Stacks, StacksError> {
    let profile = Profile::decode(bytes)?;
    let text = |index: i64| {
        let at = usize::try_from(index).ok();
        let found = at.and_then(|at| profile.string_table.get(at));
        found.ok_or(StacksError::Dangling {
            what: "string",
            number: index.cast_unsigned(),
        })
    };
    let mut functions = HashMap::new();
    for function in &profile.function {
        functions.insert(function.id, plain(text(function.name)?));
    }
    // Limits the total size, since a message of a few bytes may repeat long names without end.
    let mut left = LARGEST / 2;
    let mut spend = |text: &str| {
        let rest = left.checked_sub(text.len() as u64 + 1);
        left = rest.ok_or(StacksError::TooLarge)?;
        Ok::<_, StacksError>(())
    };
    // The text of each location in a stack: its functions, callers first.
    let mut places: HashMap<u64, String> = HashMap::new();
    for location in &profile.location {
        let mut names = Vec::new();
        for line in location.line.iter().rev() {
            let number = line.function_id;
            let name = functions.get(&number).ok_or(StacksError::Dangling {
                what: "function",
                number,
            })?;
            spend(name)?;
            names.push(name.as_str());
        }
        let place = match names.is_empty() {
            true => format!("{:#x}", location.address),
            false => names.join(";"),
        };
        places.insert(location.id, place);
    }
    let mut kind = 0;
    for (at, value) in profile.sample_type.iter().enumerate() {
        if text(value.kind)? == SAMPLES {
            kind = at;
        }
    }
    let mut stacks = Stacks::default();
    for sample in &profile.sample {
        let mut stack = Vec::new();
        for &number in sample.location_id.iter().rev() {
            let place = places.get(&number).ok_or(StacksError::Dangling {
                what: "location",
                number,
            })?;
            spend(place)?;
            stack.push(place.as_str());
        }
        let samples = sample.value.get(kind).copied().unwrap_or(0);
        let samples = u64::try_from(samples).unwrap_or(0);
        if !stack.is_empty() && samples > 0 {
            stacks.add(stack.join(";"), samples);
        }
    }
    Ok(stacks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a profile with two functions, one of which is inlined into the other, and a location
    /// without a name.
    fn profile() -> Profile {
        let strings = ["", "cpu", "samples", "main.main", "main.copy[struct {; }]"];
        let line = |function_id| Line { function_id };
        Profile {
            sample_type: [2, 1].map(|kind| ValueType { kind }).to_vec(),
            sample: vec![
                Sample {
                    location_id: vec![2, 1],
                    value: vec![3, 30_000_000],
                },
                Sample {
                    location_id: vec![3, 1],
                    value: vec![1, 10_000_000],
                },
            ],
            location: vec![
                Location {
                    id: 1,
                    address: 16,
                    line: vec![line(7)],
                },
                Location {
                    id: 2,
                    address: 32,
                    line: vec![line(8), line(7)],
                },
                Location {
                    id: 3,
                    address: 48,
                    line: Vec::new(),
                },
            ],
            function: vec![Function { id: 7, name: 3 }, Function { id: 8, name: 4 }],
            string_table: strings.map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn stacks_begin_with_the_caller_and_count_samples() {
        let found = stacks(&profile().encode_to_vec()).expect("a profile");
        let lines: Vec<String> = found.lines().collect();
        let expected = [
            "main.main;0x30 1",
            "main.main;main.main;main.copy[struct {, }] 3",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_profile_that_names_what_it_has_not_is_refused() {
        let refused = |profile: &Profile| {
            let refused = stacks(&profile.encode_to_vec()).expect_err("it dangles");
            refused.to_string()
        };
        let mut one = profile();
        one.sample[0].location_id[0] = 99;
        assert_eq!(
            refused(&one),
            "no profile: location 99 is named and not there"
        );
        let mut one = profile();
        one.location[0].line[0].function_id = 99;
        assert_eq!(
            refused(&one),
            "no profile: function 99 is named and not there"
        );
        let mut one = profile();
        one.function[0].name = 99;
        assert_eq!(
            refused(&one),
            "no profile: string 99 is named and not there"
        );
        assert!(matches!(
            stacks(b"no protobuf"),
            Err(StacksError::Profile(_))
        ));
    }

    #[test]
    fn a_small_profile_of_endless_stacks_is_refused() {
        let mut one = profile();
        one.string_table[3] = "f".repeat(10_000);
        one.sample[0].location_id = vec![1; 10_000];
        let refused = stacks(&one.encode_to_vec()).expect_err("100 MB of names");
        assert!(matches!(refused, StacksError::TooLarge), "{refused}");
    }
}
