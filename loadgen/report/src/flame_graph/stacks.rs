//! Stacks of functions, each with its number of samples, in the text form that flame graphs are
//! drawn from: `caller;callee;function 12`.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::pprof;
use crate::result::HotFunction;

/// The maximal size in bytes of a decompressed file, or of the stacks of a profile. Half a minute
/// of a server yields some MiB.
pub(super) const LARGEST: u64 = 64 << 20;
/// The separator between the functions of a stack.
const BETWEEN: char = ';';

/// Stacks, each with the number of its samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks(BTreeMap<String, u64>);

/// Why bytes cannot be read as stacks.
#[derive(Debug, thiserror::Error)]
pub enum StacksError {
    /// The bytes are not compressed by gzip, or are damaged.
    #[error("no gzip: {0}")]
    Gzip(#[source] io::Error),
    /// The stacks exceed the size limit.
    #[error("more than {LARGEST} bytes")]
    TooLarge,
    /// The bytes are not a profile of pprof.
    #[error("no profile: {0}")]
    Profile(#[from] prost::DecodeError),
    /// The profile refers to an entry that it does not contain.
    #[error("no profile: {what} {number} is named and not there")]
    Dangling {
        /// The kind of entry: `location`, `function` or `string`.
        what: &'static str,
        /// The entry's number.
        number: u64,
    },
    /// A line contains no stack or no number.
    #[error("line {line} is no stack with its samples: `{text}`")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
}

impl Stacks {
    /// Reads lines of `caller;callee;function 12`.
    ///
    /// # Errors
    /// [`StacksError::Line`].
    pub fn parse(text: &str) -> Result<Self, StacksError> {
        let mut stacks = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let parsed = text.rsplit_once(' ');
            let parsed = parsed.and_then(|(stack, samples)| Some((stack, samples.parse().ok()?)));
            let refused = || StacksError::Line {
                line,
                text: text.chars().take(80).collect(),
            };
            let (stack, samples) = parsed
                .filter(|(stack, _)| !stack.is_empty())
                .ok_or_else(refused)?;
            stacks.add(stack.to_owned(), samples);
        }
        Ok(stacks)
    }

    /// Reads lines of `caller;callee;function 12` from a compressed file.
    ///
    /// # Errors
    /// [`StacksError`].
    pub fn from_folded(gzip: &[u8]) -> Result<Self, StacksError> {
        Self::parse(&String::from_utf8_lossy(&unpacked(gzip)?))
    }

    /// Reads a compressed profile in the form that Go servers send.
    ///
    /// # Errors
    /// [`StacksError`].
    pub fn from_pprof(gzip: &[u8]) -> Result<Self, StacksError> {
        Self::from_message(&unpacked(gzip)?)
    }

    /// Reads a decompressed profile: a message of pprof's `profile.proto`. Locations without a
    /// function appear as addresses.
    ///
    /// # Errors
    /// [`StacksError`].
    pub fn from_message(bytes: &[u8]) -> Result<Self, StacksError> {
        pprof::stacks(bytes)
    }

    /// Returns the lines as a compressed file.
    ///
    /// # Errors
    /// None is expected, since it writes to memory.
    pub fn to_folded(&self) -> io::Result<Vec<u8>> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        for line in self.lines() {
            writeln!(gzip, "{line}")?;
        }
        gzip.finish()
    }

    /// Adds a number of samples to a stack.
    pub(super) fn add(&mut self, stack: String, samples: u64) {
        let seen = self.0.entry(stack).or_default();
        *seen = seen.saturating_add(samples);
    }

    /// Returns the stacks as lines, sorted.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|(stack, samples)| format!("{stack} {samples}"))
    }

    /// Returns the total number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, samples| sum.saturating_add(*samples))
    }

    /// Returns the functions with the most samples at the ends of stacks, that is on a CPU, in
    /// descending order: `most` of them at most.
    #[must_use]
    pub fn hottest(&self, most: usize) -> Vec<HotFunction> {
        let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
        for (stack, samples) in &self.0 {
            let end = stack.rsplit(BETWEEN).next().unwrap_or(stack);
            let seen = ends.entry(end).or_default();
            *seen = seen.saturating_add(*samples);
        }
        let mut ends: Vec<(&str, u64)> = ends.into_iter().collect();
        ends.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let all = self.samples() as f64;
        let ends = ends.into_iter().take(most);
        ends.map(|(function, samples)| HotFunction {
            function: function.to_owned(),
            part: samples as f64 / all,
        })
        .collect()
    }
}

/// Returns a function's name for use in a stack: without the separators of functions and of lines,
/// and never empty.
pub(super) fn plain(name: &str) -> String {
    match name.is_empty() {
        true => "[unknown]".to_owned(),
        false => name.replace(BETWEEN, ",").replace(['\n', '\r'], " "),
    }
}

fn unpacked(gzip: &[u8]) -> Result<Vec<u8>, StacksError> {
    let mut bytes = Vec::new();
    let mut decoder = MultiGzDecoder::new(gzip).take(LARGEST + 1);
    decoder.read_to_end(&mut bytes).map_err(StacksError::Gzip)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(StacksError::TooLarge),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_survive_a_round_trip_and_know_their_hottest_functions() {
        let text = "main;a b;copy 20\nmain;c;copy 5\nmain;c 75\n";
        let stacks = Stacks::parse(text).expect("stacks");
        let again = Stacks::from_folded(&stacks.to_folded().expect("memory")).expect("the same");
        assert_eq!(again, stacks);
        assert_eq!(stacks.samples(), 100);
        let hottest = stacks.hottest(1);
        assert_eq!(hottest.len(), 1);
        assert_eq!((&*hottest[0].function, hottest[0].part), ("c", 0.75));
        assert_eq!(stacks.hottest(9)[1].part, 0.25, "wherever it was called");
    }

    #[test]
    fn what_is_no_stack_is_refused_with_its_line() {
        for bad in [
            "main;a 1\nmain;b\n",
            "main;a 1\nmain;b many\n",
            "main;a 1\n 7\n",
        ] {
            let refused = Stacks::parse(bad).expect_err(bad).to_string();
            assert!(refused.starts_with("line 2 is no stack"), "{refused}");
        }
        assert!(matches!(
            Stacks::from_folded(b"main 1\n"),
            Err(StacksError::Gzip(_))
        ));
        assert!(matches!(Stacks::from_pprof(b""), Err(StacksError::Gzip(_))));
    }
}
