//! The allocator's settings, made by the program itself when it starts.
//!
//! Resident memory is a headline figure, so freed pages must go back to the system soon after they
//! are free. jemalloc keeps them for ten seconds by default, and only threads that allocate give
//! them back. Settings compiled in by cargo's configuration are lost with `cargo install`; those
//! made here hold however the program was built.

use std::fmt;

use tikv_jemalloc_ctl::{Access as _, AsName as _, background_thread};

/// The variable that sets jemalloc's options from outside; where it is set, nothing is changed.
pub const VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// How long a freed page may stay, ms. Half of jemalloc's default would still outlast a phase.
const DIRTY_DECAY_MS: isize = 1_000;

/// How long a page stays that the kernel may take lazily, ms. 0: it is given back at once, since
/// the kernel counts such pages as resident until it takes them.
const MUZZY_DECAY_MS: isize = 0;

/// jemalloc's settings as they hold for arenas that begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether threads of the allocator's own give pages back.
    pub background_thread: bool,
    /// How long a freed page may stay, ms; −1 for ever.
    pub dirty_decay_ms: isize,
    /// How long a page stays that the kernel may take lazily, ms; −1 for ever.
    pub muzzy_decay_ms: isize,
}

impl Settings {
    /// Reads them back; `None` where another allocator is linked in.
    pub fn read() -> Option<Self> {
        Some(Self {
            background_thread: background_thread::read().ok()?,
            dirty_decay_ms: b"arenas.dirty_decay_ms\0"[..].name().read().ok()?,
            muzzy_decay_ms: b"arenas.muzzy_decay_ms\0"[..].name().read().ok()?,
        })
    }
}

/// `jemalloc dirty_decay_ms:1000,…`, in the syntax of [`VARIABLE`].
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "jemalloc background_thread:{},dirty_decay_ms:{},muzzy_decay_ms:{}",
            self.background_thread, self.dirty_decay_ms, self.muzzy_decay_ms
        )
    }
}

/// Has jemalloc give freed pages back within about a second, by threads of its own. Call it first
/// in `main`: it sets the arenas that exist and the default of later ones. Does nothing where
/// [`VARIABLE`] is set, or another allocator is linked in.
pub fn configure() {
    if std::env::var_os(VARIABLE).is_none() {
        // Each setting fails alone, and only where jemalloc is not the allocator; `Settings::read`
        // says what holds.
        apply().ok();
    }
}

fn apply() -> Result<(), tikv_jemalloc_ctl::Error> {
    b"arenas.dirty_decay_ms\0"[..]
        .name()
        .write(DIRTY_DECAY_MS)?;
    b"arenas.muzzy_decay_ms\0"[..]
        .name()
        .write(MUZZY_DECAY_MS)?;
    let arenas: u32 = b"arenas.narenas\0"[..].name().read()?;
    for arena in 0..arenas {
        // An arena that no thread uses yet cannot be set; it begins with the defaults above.
        let dirty = format!("arena.{arena}.dirty_decay_ms\0");
        dirty.as_str().name().write(DIRTY_DECAY_MS).ok();
        let muzzy = format!("arena.{arena}.muzzy_decay_ms\0");
        muzzy.as_str().name().write(MUZZY_DECAY_MS).ok();
    }
    background_thread::write(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

    #[test]
    fn settings_hold_for_arenas_that_exist_and_for_later_ones() {
        let before = Settings::read().expect("jemalloc is this program's allocator");
        assert_ne!(before.dirty_decay_ms, DIRTY_DECAY_MS, "jemalloc's default");
        configure();
        let settings = Settings::read().expect("jemalloc is this program's allocator");
        assert_eq!(
            settings.to_string(),
            "jemalloc background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0"
        );
        let of_arena: isize = b"arena.0.dirty_decay_ms\0"[..]
            .name()
            .read()
            .expect("arena 0 serves the main thread");
        assert_eq!(of_arena, DIRTY_DECAY_MS);
    }
}
