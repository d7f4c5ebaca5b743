//! Exit codes: maps the outcomes and errors of commands to them in one place.

use report::compare::End;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit code of a command. Scripts depend on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done, apart from cases that a target does not support.
    Done = 0,
    /// The target failed a check or a request, died, or lost the comparison.
    TargetFailed = 1,
    /// The command line cannot be carried out, or the target cannot be reached.
    Usage = 2,
    /// A case is invalid, since the generator was late, out of CPU or sent nothing; or a comparison
    /// cannot tell.
    Invalid = 3,
    /// The run was stopped since the server suffered, or could have. The measurements are kept.
    Protected = 4,
    /// The run was stopped by a signal. The measurements are kept.
    Interrupted = 130,
}

impl From<End> for Exit {
    fn from(end: End) -> Self {
        match end {
            End::Within => Self::Done,
            End::Worse => Self::TargetFailed,
            End::CannotTell => Self::Invalid,
        }
    }
}

impl Exit {
    /// The exit codes as `--help` lists them.
    pub const HELP: &str = "\
Exit codes:
    0  done; cases that the target cannot do (N/A) included
    1  the target failed a check or a request, died, lost the comparison, or missed a threshold
       (suite, --fail-on-threshold)
    2  wrong usage, this machine cannot run it, or the target cannot be reached
    3  a case is invalid: the generator did not keep up, or sent nothing; a comparison cannot
       tell; a threshold has no verdict
    4  stopped to protect a server with other people's data; what was measured is kept
  130  interrupted; what was measured is kept and marked";

    /// Returns the exit code of a whole with these two parts. The highest of this order wins:
    /// interrupted, protected, target failed, usage, invalid, done. `scripts/lib.sh` ranks exit
    /// codes likewise.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rank = |exit| match exit {
            Self::Done => 0,
            Self::Invalid => 1,
            Self::Usage => 2,
            Self::TargetFailed => 3,
            Self::Protected => 4,
            Self::Interrupted => 5,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that ends a command, and the exit code for it.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    cause: anyhow::Error,
}

impl Failure {
    /// Returns a failure that the user has to fix: of the command line, a file, or an unreachable
    /// endpoint.
    pub fn usage(cause: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::Usage,
            cause: cause.into(),
        }
    }

    /// Returns the same error with the worse exit code of the two: its own and `other`, that of the
    /// rest of the command ([`Exit::and`]).
    #[must_use]
    pub fn beside(self, other: Exit) -> Self {
        Self {
            exit: self.exit.and(other),
            cause: self.cause,
        }
    }

    /// Joins two errors into one of a single line.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            exit: self.exit.and(other.exit),
            cause: anyhow::anyhow!("{self}; {other}"),
        }
    }

    /// Returns whether the cause is a closed output, as with `loadgen … | head`, which counts as
    /// success.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        self.cause
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Formats the error and its causes on one line, without repeating what an outer error contains.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        for cause in self.cause.chain() {
            let text = cause.to_string().replace('\n', " ");
            if said.is_empty() {
                said = text;
            } else if !said.contains(&text) {
                said = format!("{said}: {text}");
            }
        }
        f.write_str(&said)
    }
}

/// Reports an output that cannot be written.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::usage(anyhow::Error::new(error).context("cannot write the output"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    const ALL: [Exit; 6] = [
        Exit::Done,
        Exit::TargetFailed,
        Exit::Usage,
        Exit::Invalid,
        Exit::Protected,
        Exit::Interrupted,
    ];

    #[test]
    fn the_help_lists_every_code() {
        for exit in ALL {
            let code = format!("{:>5}  ", exit as u8);
            assert!(
                Exit::HELP.lines().any(|line| line.starts_with(&code)),
                "{code} is missing"
            );
        }
    }

    #[test]
    fn the_worse_of_two_ends_is_kept() {
        assert_eq!(Exit::Done.and(Exit::Invalid), Exit::Invalid);
        assert_eq!(Exit::TargetFailed.and(Exit::Invalid), Exit::TargetFailed);
        assert_eq!(Exit::TargetFailed.and(Exit::Protected), Exit::Protected);
        assert_eq!(Exit::Protected.and(Exit::Interrupted), Exit::Interrupted);
    }

    #[test]
    fn scripts_keep_the_same_of_two_ends_and_a_crash_above_all() {
        // A panic, SIGKILL, SIGTERM.
        let crashes = [101, 137, 143];
        let codes = ALL.map(|exit| exit as i32).into_iter().chain(crashes);
        let codes: Vec<i32> = codes.collect();
        let exit_of = |code| ALL.into_iter().find(|exit| *exit as i32 == code);
        let pairs = codes.iter().flat_map(|a| codes.iter().map(|b| (*a, *b)));
        let pairs: Vec<(i32, i32)> = pairs.collect();
        let calls = pairs.iter().map(|(a, b)| format!("worse {a} {b}\n"));
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/lib.sh");
        let ran = Command::new("bash")
            .args([
                "-euc",
                &format!("source \"$0\"\n{}", calls.collect::<String>()),
            ])
            .arg(library)
            .output()
            .expect("bash");
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        let said = String::from_utf8(ran.stdout).expect("numbers");
        let said: Vec<i32> = said.lines().map(|line| line.parse().expect(line)).collect();
        let expected = pairs.iter().map(|(a, b)| match (exit_of(*a), exit_of(*b)) {
            (Some(one), Some(other)) => one.and(other) as i32,
            // The first of two crashes.
            (None, _) => *a,
            (_, None) => *b,
        });
        assert_eq!(said, expected.collect::<Vec<_>>(), "of {pairs:?}");
    }

    #[test]
    fn an_error_makes_no_failed_or_interrupted_run_a_wrong_command_line() {
        let left = || Failure::usage(anyhow::anyhow!("keys are left"));
        assert_eq!(left().beside(Exit::Done).exit, Exit::Usage);
        assert_eq!(left().beside(Exit::Invalid).exit, Exit::Usage);
        assert_eq!(left().beside(Exit::TargetFailed).exit, Exit::TargetFailed);
        assert_eq!(left().beside(Exit::Interrupted).exit, Exit::Interrupted);
        let full = Failure::usage(anyhow::anyhow!("disk full"));
        let both = left().beside(Exit::TargetFailed).and(full);
        assert_eq!(both.to_string(), "keys are left; disk full");
        assert_eq!(both.exit, Exit::TargetFailed);
    }

    #[test]
    fn a_failure_is_one_line_that_repeats_nothing() {
        let inner = io::Error::other("disk\nfull");
        let failure = Failure::usage(
            anyhow::Error::new(inner)
                .context("results/a: disk full")
                .context("cannot save"),
        );
        assert_eq!(failure.to_string(), "cannot save: results/a: disk full");
        assert!(!failure.is_broken_pipe());
        assert!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).is_broken_pipe());
    }
}
