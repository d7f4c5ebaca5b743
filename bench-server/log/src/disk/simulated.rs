//! A directory in memory that loses power, fills up and fails, as a test requests.
//!
//! What no sync has covered is random after a power cut: each block of 512 bytes has the old or the
//! new content, the names are those of some moment since the directory was synced, and a length is
//! the old or the new one. A sync that fails discards what it should have written, as Linux does,
//! so a second sync succeeds without writing it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::{Disk, DiskFile};

/// Size of a sector, which is written as a whole or not at all.
const BLOCK_BYTES: usize = 512;

/// A directory in memory; clones share it.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    files: Vec<Contents>,
    names: Names,
    /// The names that a power cut may leave: those of the last sync, and those after each change
    /// since.
    possible_names: Vec<Names>,
    chance: Chance,
    /// Number of calls that still succeed; `None` for all.
    calls_left: Option<u64>,
    /// Number of syncs of files that still succeed; `None` for all.
    syncs_left: Option<u64>,
    /// Bytes that can still be reserved or written; `None` for no limit.
    bytes_left: Option<u64>,
    /// Whether writes may be short.
    short_writes: bool,
    /// Whether syncs wait for [`SimulatedDisk::release_syncs`].
    syncs_held: bool,
    calls: u64,
}

type Names = BTreeMap<String, usize>;

#[derive(Default, Clone)]
struct Contents {
    /// The content that the operating system shows.
    shown: Vec<u8>,
    /// The content that is certainly on the disk.
    durable: Vec<u8>,
    /// Blocks of `shown` that may or may not be on the disk.
    dirty: BTreeSet<usize>,
}

/// A SplitMix64 random number generator.
#[derive(Default)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

impl SimulatedDisk {
    /// Returns an empty directory, with a random generator of this seed.
    pub fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.state().chance = Chance(seed);
        disk.state().possible_names = vec![Names::new()];
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("no test panics in here")
    }

    /// Makes some later writes short.
    pub fn write_short(&self) {
        self.state().short_writes = true;
    }

    /// Lets this number of modifying calls succeed, and none after them until the next
    /// [`SimulatedDisk::cut_power`] or [`SimulatedDisk::restart`]. A write that fails may have
    /// written a part.
    pub fn fail_after(&self, calls: u64) {
        self.state().calls_left = Some(calls);
    }

    /// Lets this number of syncs succeed. The next one fails, once.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.state().syncs_left = Some(syncs);
    }

    /// Leaves room for this number of bytes.
    pub fn fill_up_after(&self, bytes: u64) {
        self.state().bytes_left = Some(bytes);
    }

    /// Returns the number of modifying calls so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Makes every sync wait until [`SimulatedDisk::release_syncs`].
    pub fn hold_syncs(&self) {
        self.state().syncs_held = true;
    }

    /// Releases the syncs that [`SimulatedDisk::hold_syncs`] has blocked.
    pub fn release_syncs(&self) {
        self.state().syncs_held = false;
        self.shared.released.notify_all();
    }

    /// Simulates the end of the process but not of the machine: everything written stays. Calls
    /// succeed again. Files that are still open must not be used any more.
    pub fn restart(&self) {
        let mut state = self.state();
        state.calls_left = None;
        state.syncs_left = None;
        state.bytes_left = None;
    }

    /// Simulates a power cut: what was not synced is kept or lost at random. Calls succeed again.
    pub fn cut_power(&self) {
        self.restart();
        let mut state = self.state();
        let State {
            files,
            names,
            possible_names,
            chance,
            ..
        } = &mut *state;
        for file in files {
            if file.durable.len() != file.shown.len() && chance.coin() {
                file.durable.resize(file.shown.len(), 0);
            }
            for block in std::mem::take(&mut file.dirty) {
                if chance.coin() {
                    copy_block(block, &file.shown, &mut file.durable);
                }
            }
            file.shown = file.durable.clone();
        }
        *names = possible_names.swap_remove(chance.below(possible_names.len()));
        *possible_names = vec![names.clone()];
    }

    /// Returns the bytes of a file, as the operating system shows them.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn contents(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.files[state.names[name]].shown.clone()
    }

    /// Changes the bytes of a file directly, as shown and on the disk, without counting a call.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn alter(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut state = self.state();
        let file = state.names[name];
        let file = &mut state.files[file];
        change(&mut file.shown);
        change(&mut file.durable);
    }
}

impl State {
    /// Counts a modifying call. Returns an error if no more calls may succeed.
    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        match &mut self.calls_left {
            Some(0) => Err(io::Error::other("the disk is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Takes room for up to `bytes`; returns how many were available.
    fn take_room(&mut self, bytes: u64) -> u64 {
        match &mut self.bytes_left {
            Some(left) => {
                let taken = bytes.min(*left);
                *left -= taken;
                taken
            }
            None => bytes,
        }
    }

    fn names_changed(&mut self) {
        self.possible_names.push(self.names.clone());
    }

    fn file(&self, name: &str) -> io::Result<usize> {
        let file = self.names.get(name).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Copies a block of one content to another, as far as the other is long enough.
fn copy_block(block: usize, from: &[u8], to: &mut [u8]) {
    let begin = block * BLOCK_BYTES;
    let end = (begin + BLOCK_BYTES).min(from.len()).min(to.len());
    if begin < end {
        to[begin..end].copy_from_slice(&from[begin..end]);
    }
}

/// Returns the error of a full disk.
fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Disk for SimulatedDisk {
    fn path(&self, name: &str) -> String {
        name.to_owned()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.call()?;
        if state.take_room(bytes) < bytes {
            return Err(full());
        }
        let file = state.files.len();
        state.files.push(Contents {
            shown: vec![0; bytes as usize],
            ..Contents::default()
        });
        state.names.insert(name.to_owned(), file);
        state.names_changed();
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.state().file(name)?;
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            file,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        let file = state.file(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        state.names_changed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        state.file(name)?;
        state.names.remove(name);
        state.names_changed();
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        state.possible_names = vec![state.names.clone()];
        Ok(())
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl DiskFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].shown.len() as u64)
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let rest = state.files[self.file].shown.get(at as usize..);
        let rest = rest.unwrap_or_default();
        let read = rest.len().min(out.len());
        out[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let called = state.call();
        let mut written = bytes.len();
        if called.is_err() || state.short_writes {
            written = state.chance.below(written + 1);
        }
        let at = at as usize;
        let grows = (at + written).saturating_sub(state.files[self.file].shown.len());
        written -= grows - state.take_room(grows as u64) as usize;
        let file = &mut state.files[self.file];
        let end = at + written;
        if written > 0 {
            if file.shown.len() < end {
                file.shown.resize(end, 0);
            }
            file.shown[at..end].copy_from_slice(&bytes[..written]);
            file.dirty
                .extend(at / BLOCK_BYTES..=(end - 1) / BLOCK_BYTES);
        }
        called?;
        match written {
            0 if !bytes.is_empty() && state.bytes_left == Some(0) => Err(full()),
            // A short write is at least one byte; otherwise a caller that writes the rest in a loop
            // would never finish.
            0 if !bytes.is_empty() => Err(io::ErrorKind::Interrupted.into()),
            written => Ok(written),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.call()?;
        let file = &mut state.files[self.file];
        file.shown.resize(bytes as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        while state.syncs_held {
            let waited = self.disk.shared.released.wait(state);
            state = waited.expect("no test panics in here");
        }
        let called = state.call();
        let fails = match &mut state.syncs_left {
            Some(0) => {
                state.syncs_left = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        let file = &mut state.files[self.file];
        let dirty = std::mem::take(&mut file.dirty);
        called?;
        if fails {
            return Err(io::Error::other("input/output error"));
        }
        file.durable.resize(file.shown.len(), 0);
        for block in dirty {
            copy_block(block, &file.shown, &mut file.durable);
        }
        Ok(())
    }
}
