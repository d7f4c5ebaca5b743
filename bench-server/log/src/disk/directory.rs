//! A directory of the file system, locked while it is open.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Disk, DiskFile};
use crate::LogError;

/// A directory that is locked against other processes' logs until this is dropped.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The open directory. It is locked (`flock`), and synced after names have changed.
    handle: File,
}

impl Directory {
    /// Opens and locks a directory. Creates it (mode 0700) if it does not exist.
    ///
    /// # Errors
    /// [`LogError::Locked`], [`LogError::Io`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let failed = |action| {
            move |source| LogError::Io {
                action,
                file: path.display().to_string(),
                source,
            }
        };
        if !path.exists() {
            create(path).map_err(failed("create the data directory"))?;
        }
        let handle = File::open(path).map_err(failed("open the data directory"))?;
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LogError::Locked {
                    directory: path.display().to_string(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(failed("lock the data directory")(source));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            handle,
        })
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options
    }
}

/// Creates a directory, durably if its parent exists already.
fn create(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)?;
    match path.parent().filter(|parent| parent.is_dir()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

impl Disk for Directory {
    fn path(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // Skips names that are not UTF-8: the log has no such files.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut options = Self::options();
        let file = options
            .create(true)
            .truncate(true)
            .open(self.path.join(name))?;
        if bytes > 0 {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                // The file system does not support it: set the length, without a reservation of
                // space.
                Err(Errno::OPNOTSUPP) => file.set_len(bytes)?,
                other => other?,
            }
        }
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Self::options().open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, out, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, at)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        let first = Directory::open(&path).expect("it is free");
        let refused = Directory::open(&path).expect_err("it is taken");
        let told = refused.to_string();
        assert!(told.contains("locked by another server"), "{told}");
        drop(first);
        Directory::open(&path).expect("it is free again");
    }

    #[test]
    fn reserved_bytes_read_as_zeros() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = Directory::open(folder.path()).expect("a directory");
        let file = disk.create("a", 10_000).expect("there is room");
        let mut found = vec![1; 10_000];
        assert_eq!(file.size().expect("a file"), 10_000);
        assert_eq!(file.read_at(&mut found, 0).expect("a file"), 10_000);
        assert_eq!(found, vec![0; 10_000]);
        assert_eq!(disk.names().expect("a directory"), ["a"]);
    }
}
