//! Stacks of functions and how often each was seen, in the form that flame graphs are drawn from:
//! `caller;callee;function 12`.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::pprof;
use crate::result::HotFunction;

/// Bytes that a compressed file, or the stacks of a profile, may come to. Half a minute of a server
/// has some MiB.
pub(super) const LARGEST: u64 = 64 << 20;
/// Between the functions of a stack.
const BETWEEN: char = ';';

/// Stacks, each with the number of samples in which it was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks(BTreeMap<String, u64>);

/// Why bytes are no stacks.
#[derive(Debug, thiserror::Error)]
pub enum StacksError {
    /// Not compressed by gzip, or damaged.
    #[error("no gzip: {0}")]
    Gzip(#[source] io::Error),
    /// More than fits.
    #[error("more than {LARGEST} bytes")]
    TooLarge,
    /// Not a profile of pprof.
    #[error("no profile: {0}")]
    Profile(#[from] prost::DecodeError),
    /// A profile that names what it does not have.
    #[error("no profile: {what} {number} is named and not there")]
    Dangling {
        /// `location`, `function` or `string`.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// A line without stack or number.
    #[error("line {line} is no stack with its samples: `{text}`")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// How it begins.
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

    /// Reads such lines from a compressed file.
    ///
    /// # Errors
    /// [`StacksError`].
    pub fn from_folded(gzip: &[u8]) -> Result<Self, StacksError> {
        Self::parse(&String::from_utf8_lossy(&unpacked(gzip)?))
    }

    /// Reads a profile as Go servers send it.
    ///
    /// # Errors
    /// [`StacksError`].
    pub fn from_pprof(gzip: &[u8]) -> Result<Self, StacksError> {
        Self::from_message(&unpacked(gzip)?)
    }

    /// Reads a profile that was unpacked: a message of pprof's `profile.proto`. Functions without a
    /// name are their addresses.
    ///
    /// # Errors
    /// [`StacksError`].
    pub fn from_message(bytes: &[u8]) -> Result<Self, StacksError> {
        pprof::stacks(bytes)
    }

    /// Returns them as a compressed file.
    ///
    /// # Errors
    /// None that is known: memory is written to.
    pub fn to_folded(&self) -> io::Result<Vec<u8>> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        for line in self.lines() {
            writeln!(gzip, "{line}")?;
        }
        gzip.finish()
    }

    /// Counts a stack so often.
    pub(super) fn add(&mut self, stack: String, samples: u64) {
        let seen = self.0.entry(stack).or_default();
        *seen = seen.saturating_add(samples);
    }

    /// Returns the lines that they are read from, sorted.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|(stack, samples)| format!("{stack} {samples}"))
    }

    /// Returns the samples of all stacks.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, samples| sum.saturating_add(*samples))
    }

    /// Returns the functions that were on a CPU most often, most first: those at the ends of
    /// stacks.
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

/// Returns a function's name as stacks have it: without what separates functions and stacks, and
/// never empty.
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
