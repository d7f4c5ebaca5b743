//! The file operations that a log needs, as a trait, so that a test can make each of them fail.

mod directory;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;

use std::io;

pub use directory::Directory;

/// One directory. Names are those of its files, without a path.
pub trait Disk: Send + Sync {
    /// Returns the name of a file for messages: its path, if it has one.
    fn path(&self, name: &str) -> String;

    /// Returns the names of all files.
    ///
    /// # Errors
    /// The operating system's error.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file, or truncates an existing one of that name, and reserves `bytes` that
    /// read as zeros.
    ///
    /// # Errors
    /// The operating system's error; `StorageFull` if the bytes cannot be reserved.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file.
    ///
    /// # Errors
    /// The operating system's error.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, replacing an existing one. Durable after [`Disk::sync_names`].
    ///
    /// # Errors
    /// The operating system's error.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The operating system's error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names of files durable (`fsync` of the directory).
    ///
    /// # Errors
    /// The operating system's error.
    fn sync_names(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: Send {
    /// Returns its length in bytes.
    ///
    /// # Errors
    /// The operating system's error.
    fn size(&self) -> io::Result<u64>;

    /// Reads at most `out.len()` bytes at an offset. Returns 0 at the end of the file.
    ///
    /// # Errors
    /// The operating system's error.
    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes some of `bytes` at an offset; returns how many.
    ///
    /// # Errors
    /// The operating system's error. How much was written is then unknown.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// The operating system's error.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Returns once everything written is durable, including the length (`fdatasync`). After an
    /// error nothing is known about the bytes written since the last sync, and it must not be
    /// called again.
    ///
    /// # Errors
    /// The operating system's error.
    fn sync(&self) -> io::Result<()>;
}
