//! Lists of CPUs as `taskset` takes them, and threads that stay on them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The largest CPU number that can be named: the kernel's sets hold so many.
const MOST_CPUS: usize = 1024;

/// CPUs by number, at least one: `0,2-4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// The numbers in it that `available` lacks.
    #[must_use]
    pub fn missing_from(&self, available: &Self) -> Vec<usize> {
        self.0.difference(&available.0).copied().collect()
    }

    /// Whether no CPU is in both.
    #[must_use]
    pub fn is_apart_from(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl CpuList {
    /// The CPUs that the calling thread may use.
    ///
    /// # Errors
    /// The kernel's.
    pub fn available() -> std::io::Result<Self> {
        let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))?;
        let numbers = 0..nix::sched::CpuSet::count();
        Ok(Self(
            numbers
                .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
                .collect(),
        ))
    }

    /// Keeps the calling thread, and threads and processes that it starts from now on, on these CPUs.
    ///
    /// # Errors
    /// The kernel's, as when none of them is there.
    pub fn pin(&self) -> std::io::Result<()> {
        let mut set = nix::sched::CpuSet::new();
        for &cpu in &self.0 {
            set.set(cpu)?;
        }
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?;
        Ok(())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl CpuList {
    /// This system does not say which CPUs a thread may use.
    ///
    /// # Errors
    /// Always.
    pub fn available() -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// This system keeps no thread on a CPU.
    ///
    /// # Errors
    /// Always.
    pub fn pin(&self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a list of CPUs like 0,2-4");
        let number = |text: &str| match text.parse::<usize>() {
            Ok(number) if number < MOST_CPUS => Ok(number),
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
    fn a_list_is_read_and_shown_as_taskset_does() {
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
    fn what_is_no_list_is_refused() {
        for text in ["", "a", "1,", "2-1", "-1", "0-", "1024", "0-99999999"] {
            let error = text.parse::<CpuList>().expect_err(text);
            assert!(error.contains("not a list of CPUs"), "{error}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let list = |text: &str| text.parse::<CpuList>().expect("a list");
        assert_eq!(list("0,5-6").missing_from(&list("0-1,6")), [5]);
        assert!(list("1").missing_from(&list("0-1")).is_empty());
        assert!(list("1").is_apart_from(&list("0,2")) && !list("1-2").is_apart_from(&list("0,2")));
    }

    /// In a thread of its own, so that no other test is pinned.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_stays_on_its_cpus() {
        let pinned = std::thread::spawn(|| {
            let available = CpuList::available().expect("the kernel says it");
            let first = CpuList(available.0.iter().copied().take(1).collect());
            first.pin().expect("it is available");
            (first, CpuList::available().expect("the kernel says it"))
        });
        let (first, now) = pinned.join().expect("no panic");
        assert_eq!(now, first);
    }
}
