//! Opens a log: replays the files of a directory, and handles an end that does not verify.
//!
//! A power cut may leave any part of what no sync has covered: none of it, all of it, or one block
//! without the block before. Such an end is copied to another file and cut. What a sync did cover
//! survives any power cut. If it does not verify, the bytes have changed since, and a server that
//! continued would lose acknowledged writes. The files record what syncs had covered: each record
//! has the offset below which its segment was durable, and each segment whether the earlier
//! segments were.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use bytes::{Bytes, BytesMut};

use super::format::{FileHeader, Kind};
use super::log::{is_temporary, segment_name, segment_number, snapshot_name, snapshot_number};
use super::reader::{BLOCK_BYTES, Block, End, FileReader, Tail};
use super::snapshot::remove_older;
use super::writer::write_all;
use super::{Config, Disk, Log, LogError};

/// Number of blocks that are read ahead of the replay.
const BLOCKS_AHEAD: usize = 4;

/// One payload of the log, in the order of writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// A payload of the snapshot, which comes first.
    Snapshot(Bytes),
    /// A record of a segment.
    Record(Bytes),
}

/// The result of opening a log.
pub struct Opened {
    /// The log, ready to append to.
    pub log: Log,
    /// Statistics of the replay.
    pub recovery: Recovery,
}

/// Statistics of opening a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Number of records of segments that were replayed.
    pub records: u64,
    /// Bytes read of the snapshot and the segments.
    pub bytes: u64,
    /// The end that was cut, if any.
    pub cut: Option<Cut>,
}

/// An end that did not verify and that no sync had covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file.
    pub file: String,
    /// The offset at which it ends now.
    pub offset: u64,
    /// Bytes that were cut, including those of later segments.
    pub bytes: u64,
    /// The file to which the first of these bytes were copied or moved.
    pub kept_as: String,
}

impl Log {
    /// Opens the log in a directory: passes its contents to `replay` in order, and starts a new
    /// segment after them. A thread of its own reads and verifies the files, ahead of `replay`. If
    /// `replay` returns an error, the record is treated as corrupt.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if synced bytes do not verify, or if `replay` rejects a record;
    /// [`LogError::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        config: Config,
        mut replay: impl FnMut(Replayed) -> Result<(), String>,
    ) -> Result<Opened, LogError> {
        let files = Files::find(&*disk)?;
        let (sender, blocks) = sync_channel::<FileBlock>(BLOCKS_AHEAD);
        let (replayed, buffers) = channel::<BytesMut>();
        let found = thread::scope(|scope| {
            let ahead = ReadAhead { sender, buffers };
            let reading = scope.spawn(|| files.read(&*disk, ahead));
            let replay_all = || {
                for mut block in blocks {
                    for (offset, payload) in block.read.payloads.drain(..) {
                        let part = match block.kind {
                            Kind::Snapshot => Replayed::Snapshot(payload),
                            Kind::Segment => Replayed::Record(payload),
                        };
                        replay(part).map_err(|reason| LogError::Corrupt {
                            file: disk.path(&block.name),
                            offset,
                            reason,
                        })?;
                    }
                    // Refused once all is read.
                    replayed.send(block.read.into_buffer()).ok();
                }
                Ok(())
            };
            // A failed replay drops the receiver, and reading stops at the next block.
            let outcome = replay_all();
            let found = reading.join().expect("reading does not panic");
            outcome.and(found)
        })?;
        let mut recovery = Recovery {
            records: found.records,
            bytes: found.bytes,
            cut: None,
        };
        let last = files.segments.last().map(|(number, _)| *number);
        let (number, previous) = match found.last {
            None => (files.first(), 0),
            Some((last, end)) => {
                recovery.cut = files.end(&*disk, last, end)?;
                (files.segments[last].0 + 1, end.chain)
            }
        };
        debug_assert!(recovery.cut.is_some() || last.is_none_or(|last| last + 1 == number));
        if config.sync {
            files.sync(&*disk, number)?;
        }
        files.tidy(&*disk)?;
        let log = Self::begin(disk, config, number, previous, found.bytes)?;
        Ok(Opened { log, recovery })
    }
}

/// A block of one file.
struct FileBlock {
    kind: Kind,
    name: String,
    read: Block,
}

/// The reader's side of the replay: blocks go there, and their memory comes back. Fresh memory for
/// each block would cost as much as reading it, since the kernel clears it first.
struct ReadAhead {
    sender: SyncSender<FileBlock>,
    buffers: Receiver<BytesMut>,
}

impl ReadAhead {
    /// Returns memory to read into: of a block that was replayed, or none. That of a record longer
    /// than a block is freed instead.
    fn buffer(&self) -> BytesMut {
        let mut replayed = self.buffers.try_iter();
        let found = replayed.find(|buffer| buffer.capacity() <= 2 * BLOCK_BYTES);
        found.unwrap_or_default()
    }

    /// Sends a block of a file to the replay. Returns whether the replay goes on.
    fn send(&self, reader: &FileReader<'_>, read: Block) -> bool {
        let block = FileBlock {
            kind: reader.header.kind,
            name: reader.name().to_owned(),
            read,
        };
        self.sender.send(block).is_ok()
    }
}

/// The files of a log.
struct Files {
    names: Vec<String>,
    /// The number of the latest snapshot.
    snapshot: Option<u64>,
    /// The segments from that number on, without gaps.
    segments: Vec<(u64, FileHeader)>,
}

/// The result of reading the files.
struct Found {
    records: u64,
    bytes: u64,
    /// The index in [`Files::segments`] of the last segment that was read, and the end of its
    /// records.
    last: Option<(usize, End)>,
}

impl Files {
    fn find(disk: &dyn Disk) -> Result<Self, LogError> {
        let names = disk.names().map_err(|source| LogError::Io {
            action: "list",
            file: disk.path(""),
            source,
        })?;
        let snapshot = names.iter().filter_map(|name| snapshot_number(name)).max();
        let first = snapshot.unwrap_or(1);
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|name| segment_number(name))
            .collect();
        numbers.retain(|number| *number >= first);
        numbers.sort_unstable();
        let missing = (first..)
            .zip(&numbers)
            .find(|(expected, found)| expected != *found);
        let missing = match (missing, snapshot) {
            (Some((expected, _)), _) => Some(expected),
            // The segment with the snapshot's number must exist: it is started before the snapshot
            // is written.
            (None, Some(first)) if numbers.is_empty() => Some(first),
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(LogError::Corrupt {
                file: disk.path(&segment_name(missing)),
                offset: 0,
                reason: "the file is missing".to_owned(),
            });
        }
        let mut segments = Vec::with_capacity(numbers.len());
        for number in numbers {
            let reader = FileReader::open(disk, segment_name(number))?;
            let header = reader.header;
            if header.kind != Kind::Segment || header.number != number {
                return Err(reader.corrupt(8, format!("this is not segment {number}")));
            }
            segments.push((number, header));
        }
        Ok(Self {
            names,
            snapshot,
            segments,
        })
    }

    fn first(&self) -> u64 {
        self.snapshot.unwrap_or(1)
    }

    /// Reads all files in order and sends their payloads to the replay.
    fn read(&self, disk: &dyn Disk, replay: ReadAhead) -> Result<Found, LogError> {
        let mut found = Found {
            records: 0,
            bytes: 0,
            last: None,
        };
        if let Some(number) = self.snapshot {
            found.bytes += read_snapshot(disk, number, &replay)?;
        }
        for (place, (number, _)) in self.segments.iter().enumerate() {
            let mut reader = FileReader::open(disk, segment_name(*number))?;
            loop {
                let block = reader.next_block(replay.buffer())?;
                if block.payloads.is_empty() {
                    break;
                }
                found.records += block.payloads.len() as u64;
                if !replay.send(&reader, block) {
                    // The replay has failed and returns its own error.
                    return Ok(found);
                }
            }
            let end = reader.end()?;
            found.bytes += end.at;
            found.last = Some((place, end));
            let follows = self.segments.get(place + 1);
            let whole = follows.is_none_or(|(_, next)| next.previous == end.chain);
            if whole && end.rest == Tail::Zeros {
                continue;
            }
            self.check_torn(&reader, place, end)?;
            break;
        }
        Ok(found)
    }

    /// Checks that the unverifiable end of a segment may be the remains of a write after a power
    /// cut.
    fn check_torn(&self, reader: &FileReader<'_>, place: usize, end: End) -> Result<(), LogError> {
        if let Tail::Bad {
            synced_before: Some(later),
            ..
        } = end.rest
        {
            let reason = format!(
                "the record there does not verify, although the one at {later} was written after it was durable"
            );
            return Err(reader.corrupt(end.at, reason));
        }
        let later = self.segments[place + 1..].iter();
        if let Some((later, _)) = later.clone().find(|(_, header)| header.previous_synced) {
            let reason = format!(
                "no record there continues the log, although segment {later} was begun after it was durable"
            );
            return Err(reader.corrupt(end.at, reason));
        }
        Ok(())
    }

    /// Ends the last valid segment. The bytes after its records, and the later segments, are copied
    /// or moved to other files, durably, before they are cut. If there are none, this only releases
    /// the reserved space.
    fn end(&self, disk: &dyn Disk, last: usize, end: End) -> Result<Option<Cut>, LogError> {
        let name = segment_name(self.segments[last].0);
        let failed = |action, name: &str| {
            let file = disk.path(name);
            move |source| LogError::Io {
                action,
                file,
                source,
            }
        };
        let mut cut = None;
        // In reverse order, so that a start after a crash in this loop finds no gap.
        for (number, _) in self.segments[last + 1..].iter().rev() {
            let name = segment_name(*number);
            let kept_as = format!("{name}.torn");
            let reader = FileReader::open(disk, name.clone())?;
            let bytes = reader.file().size().map_err(failed("read", &name))?;
            disk.rename(&name, &kept_as)
                .map_err(failed("rename", &name))?;
            let before = cut.map_or(0, |cut: Cut| cut.bytes);
            cut = Some(Cut {
                file: disk.path(&segment_name(self.segments[last].0)),
                offset: end.at,
                bytes: before + bytes,
                kept_as: disk.path(&kept_as),
            });
        }
        let reader = FileReader::open(disk, name.clone())?;
        if let Tail::Bad { to, .. } = end.rest {
            let tail = reader.read(end.at, (to - end.at) as usize)?;
            let kept_as = format!("{name}.torn-{}", end.at);
            let copy = disk
                .create(&kept_as, 0)
                .map_err(failed("create", &kept_as))?;
            write_all(&*copy, &tail, 0).map_err(failed("write to", &kept_as))?;
            copy.sync().map_err(failed("sync", &kept_as))?;
            cut = Some(Cut {
                file: disk.path(&name),
                offset: end.at,
                bytes: cut.map_or(0, |cut| cut.bytes) + tail.len() as u64,
                kept_as: disk.path(&kept_as),
            });
        }
        if cut.is_some() {
            disk.sync_names()
                .map_err(failed("sync the directory of", &name))?;
        }
        reader
            .file()
            .set_len(end.at)
            .map_err(failed("cut", &name))?;
        // A failed sync leaves pages in the page cache that look written but are not on the disk.
        // Only bytes that are written again are certainly durable after the next sync.
        let unsynced = reader.read(end.synced, (end.at - end.synced) as usize)?;
        write_all(reader.file(), &unsynced, end.synced).map_err(failed("write to", &name))?;
        reader.file().sync().map_err(failed("sync", &name))?;
        Ok(cut)
    }

    /// Syncs the replayed segments below `end`; later ones were moved away. They are about to be
    /// served, and a process that was killed may have left them in the page cache only.
    fn sync(&self, disk: &dyn Disk, end: u64) -> Result<(), LogError> {
        for (number, _) in self.segments.iter().filter(|(number, _)| *number < end) {
            let reader = FileReader::open(disk, segment_name(*number))?;
            reader.file().sync().map_err(|source| LogError::Io {
                action: "sync",
                file: disk.path(reader.name()),
                source,
            })?;
        }
        disk.sync_names().map_err(|source| LogError::Io {
            action: "sync",
            file: disk.path(""),
            source,
        })
    }

    /// Removes the files that an interrupted server left: unfinished ones, and those that the
    /// snapshot replaces.
    fn tidy(&self, disk: &dyn Disk) -> Result<(), LogError> {
        for name in self.names.iter().filter(|name| is_temporary(name)) {
            disk.remove(name).map_err(|source| LogError::Io {
                action: "remove",
                file: disk.path(name),
                source,
            })?;
        }
        match self.snapshot {
            Some(number) => remove_older(disk, number),
            None => Ok(()),
        }
    }
}

/// Reads a snapshot and sends its payloads to the replay; returns its size in bytes.
fn read_snapshot(disk: &dyn Disk, number: u64, replay: &ReadAhead) -> Result<u64, LogError> {
    let mut reader = FileReader::open(disk, snapshot_name(number))?;
    if reader.header.kind != Kind::Snapshot || reader.header.number != number {
        return Err(reader.corrupt(8, format!("this is not snapshot {number}")));
    }
    let mut ended = false;
    loop {
        let mut block = reader.next_block(replay.buffer())?;
        let Some((_, last)) = block.payloads.last() else {
            break;
        };
        if last.is_empty() {
            ended = true;
            block.payloads.pop();
        }
        if !replay.send(&reader, block) || ended {
            break;
        }
    }
    // A snapshot gets its name only when it is complete and durable, so an incomplete one is
    // corrupt.
    match ended {
        true => Ok(reader.at()),
        false => Err(reader.corrupt(reader.at(), "the record there does not verify")),
    }
}
