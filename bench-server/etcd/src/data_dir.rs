//! What is kept on disk: the flags, and the store that they open.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use listen::flags::parse_duration;
use store::{Config, Directory, Fsync, LogError, LogOptions, Store};

/// Whether writes are kept on disk, and what they wait for.
#[derive(Debug, Clone, Args)]
pub struct DataFlags {
    /// Directory in which all writes are kept, and which is read at start (default: none,
    /// everything is in memory alone).
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// What a write waits for before it is answered and shown to others.
    #[arg(long, value_enum, default_value_t = FsyncMode::Always, requires = "data_dir")]
    pub fsync: FsyncMode,

    /// How long `--fsync batch` leaves a write to the operating system alone.
    #[arg(long, value_parser = parse_duration, default_value = "100ms", value_name = "DURATION", requires = "data_dir")]
    pub fsync_interval: Duration,

    /// etcd's name for `--fsync never`.
    #[arg(long, requires = "data_dir", conflicts_with = "fsync")]
    pub unsafe_no_fsync: bool,
}

/// What a write waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FsyncMode {
    /// The disk: what was answered survives a power cut.
    Always,
    /// The operating system: what was answered survives the end of the server; a power cut takes
    /// the last `--fsync-interval`.
    Batch,
    /// The operating system, which writes when it likes: a power cut takes what it has not written.
    Never,
}

impl DataFlags {
    /// Returns what writes wait for.
    pub fn fsync(&self) -> Fsync {
        match self.fsync {
            _ if self.unsafe_no_fsync => Fsync::Never,
            FsyncMode::Always => Fsync::Always,
            FsyncMode::Batch => Fsync::Batch(self.fsync_interval),
            FsyncMode::Never => Fsync::Never,
        }
    }

    /// Opens the store that is kept in `--data-dir`, or an empty one in memory. Reads everything
    /// that is kept, off this thread.
    ///
    /// # Errors
    /// [`LogError`].
    pub async fn open(&self, config: Config) -> Result<Store, LogError> {
        let Some(path) = self.data_dir.clone() else {
            return Ok(Store::new(config));
        };
        let fsync = self.fsync();
        tracing::info!("the log is in {}, fsync: {fsync:?}", path.display());
        let opening = tokio::task::spawn_blocking(move || {
            let directory = Directory::open(&path)?;
            Store::open(config, Arc::new(directory), LogOptions::new(fsync))
        });
        match opening.await {
            Ok(opened) => opened,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::Flags;

    fn read(arguments: &[&str]) -> Result<DataFlags, clap::Error> {
        let line = [&["bench-server"], arguments].concat();
        Flags::try_parse_from(line).map(|flags| flags.etcd.data)
    }

    #[test]
    fn what_a_write_waits_for_is_a_choice() {
        let batch = Fsync::Batch(Duration::from_millis(20));
        for (arguments, fsync) in [
            (&["--data-dir", "d"][..], Fsync::Always),
            (&["--data-dir", "d", "--fsync", "never"], Fsync::Never),
            (&["--data-dir", "d", "--unsafe-no-fsync"], Fsync::Never),
            (
                &[
                    "--data-dir",
                    "d",
                    "--fsync",
                    "batch",
                    "--fsync-interval",
                    "20ms",
                ],
                batch,
            ),
        ] {
            let flags = read(arguments).expect("flags");
            assert_eq!(flags.fsync(), fsync, "{arguments:?}");
        }
        assert_eq!(read(&[]).expect("flags").data_dir, None);
    }

    #[test]
    fn a_promise_without_a_directory_is_refused() {
        for arguments in [
            &["--fsync", "always"][..],
            &["--unsafe-no-fsync"],
            &["--fsync-interval", "1s"],
            &["--data-dir", "d", "--fsync", "always", "--unsafe-no-fsync"],
        ] {
            assert!(read(arguments).is_err(), "{arguments:?}");
        }
    }
}
