//! Lists of CPUs in the format of `taskset`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The exclusive upper bound of CPU numbers: the size of the kernel's CPU sets.
const MAX_CPUS: usize = 1024;

/// A non-empty set of CPU numbers, written like `0,2-4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Returns a list of these CPUs, or `None` if there are none.
    pub fn of(numbers: impl IntoIterator<Item = usize>) -> Option<Self> {
        let cpus: BTreeSet<usize> = numbers.into_iter().collect();
        (!cpus.is_empty()).then_some(Self(cpus))
    }

    /// Returns the numbers, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// Returns the numbers that are not in `available`.
    #[must_use]
    pub fn missing_from(&self, available: &Self) -> Vec<usize> {
        self.0.difference(&available.0).copied().collect()
    }

    /// Returns whether the lists have no CPU in common.
    #[must_use]
    pub fn is_apart_from(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a list of CPUs like 0,2-4");
        let number = |text: &str| match text.parse::<usize>() {
            Ok(number) if number < MAX_CPUS => Ok(number),
            _ => Err(bad()),
        };
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(cpus: CpuList) -> Self {
        cpus.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_parsed_and_written_as_by_taskset() {
        for (text, shown) in [
            ("0", "0"),
            ("3,1,2", "1-3"),
            ("0-1,4", "0-1,4"),
            ("7-7", "7"),
        ] {
            assert_eq!(
                text.parse::<CpuList>().map(|cpus| cpus.to_string()),
                Ok(shown.to_owned())
            );
        }
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for text in ["", "a", "1,", "2-1", "-1", "0-", "1024", "0-99999999"] {
            let error = text.parse::<CpuList>().expect_err(text);
            assert!(error.contains("not a list of CPUs"), "{error}");
        }
    }

    #[test]
    fn missing_cpus_are_named() {
        let list = |text: &str| text.parse::<CpuList>().expect("a list");
        assert_eq!(list("0,5-6").missing_from(&list("0-1,6")), [5]);
        assert!(list("1").missing_from(&list("0-1")).is_empty());
        assert!(list("1").is_apart_from(&list("0,2")) && !list("1-2").is_apart_from(&list("0,2")));
    }
}
