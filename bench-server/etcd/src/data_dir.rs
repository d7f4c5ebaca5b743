//! The flags of the data directory, and opening the store in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use listen::flags::parse_duration;
use store::{Config, Directory, Fsync, LogError, LogOptions, Store};

use super::flags::go_bool;

/// Flags of the data directory and its durability.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("unsafe_no_fsync", go_bool))]
pub struct DataFlags {
    /// Directory that stores all writes and is read at start (default: none, everything is in
    /// memory only).
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Durability that a write waits for before its response is sent and other clients can see it.
    #[arg(long, value_enum, default_value_t = FsyncMode::Always, requires = "data_dir")]
    pub fsync: FsyncMode,

    /// Maximum time until `--fsync batch` syncs a write to the disk.
    #[arg(long, value_parser = parse_duration, default_value = "100ms", value_name = "DURATION", requires = "data_dir")]
    pub fsync_interval: Duration,

    /// etcd's name for `--fsync never`.
    #[arg(long, requires = "data_dir", conflicts_with = "fsync")]
    pub unsafe_no_fsync: bool,
}

/// The durability that a write waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FsyncMode {
    /// On the disk: an acknowledged write survives a power cut.
    Always,
    /// In the operating system: an acknowledged write survives the end of the server; a power cut
    /// may lose the writes of the last `--fsync-interval`.
    Batch,
    /// In the operating system, which decides when to write to the disk: a power cut may lose every
    /// write that it has not written yet.
    Never,
}

impl DataFlags {
    /// Returns the durability that writes wait for.
    pub fn fsync(&self) -> Fsync {
        match self.fsync {
            _ if self.unsafe_no_fsync => Fsync::Never,
            FsyncMode::Always => Fsync::Always,
            FsyncMode::Batch => Fsync::Batch(self.fsync_interval),
            FsyncMode::Never => Fsync::Never,
        }
    }

    /// Opens the store in `--data-dir`, or an empty one in memory. Reads all stored data, on a
    /// blocking thread.
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
