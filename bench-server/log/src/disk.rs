//! The file calls that a log is made of, so that a test can make each of them fail.

mod directory;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;

use std::io;

pub use directory::Directory;

/// One directory. Names are those of files in it, without a path.
pub trait Disk: Send + Sync {
    /// Returns how messages name a file: the path, where there is one.
    fn path(&self, name: &str) -> String;

    /// Returns the names of all files.
    ///
    /// # Errors
    /// The system's.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file, or empties the one of that name, and reserves `bytes` that read as
    /// zeros.
    ///
    /// # Errors
    /// The system's; `StorageFull` where the bytes are not to be had.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, over another one if need be. Durable after [`Disk::sync_names`].
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable which names there are (`fsync` of the directory).
    ///
    /// # Errors
    /// The system's.
    fn sync_names(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: Send {
    /// Returns its length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Reads at most `out.len()` bytes at an offset; 0 is the end of the file.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes some of `bytes` at an offset and returns how many.
    ///
    /// # Errors
    /// The system's; how much was written then is unknown.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Returns once everything written is durable, the length included (`fdatasync`). After an
    /// error nothing is known about what was written since the last sync: it must not be called
    /// again.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;
}
