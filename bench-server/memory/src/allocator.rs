//! Configures the allocator when the program starts.
//!
//! Resident memory is a main metric, so freed pages must be returned to the system soon. jemalloc
//! keeps them for ten seconds by default, and only allocating threads return them. Settings in
//! cargo's configuration are lost with `cargo install`; the settings here apply to every build.

use std::fmt;

use tikv_jemalloc_ctl::{Access as _, AsName as _, background_thread};

/// The environment variable with jemalloc's options; if it is set, nothing is changed here.
pub const VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// Time that a freed page may stay, ms. Half of jemalloc's default would still outlast a phase.
const DIRTY_DECAY_MS: isize = 1_000;

/// Time that a page in the muzzy state stays, ms. 0 returns it at once, since the kernel counts
/// muzzy pages as resident until it reclaims them.
const MUZZY_DECAY_MS: isize = 0;

/// jemalloc's settings for new arenas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether background threads return pages.
    pub background_thread: bool,
    /// Time that a freed page may stay, ms; −1 for no limit.
    pub dirty_decay_ms: isize,
    /// Time that a muzzy page may stay, ms; −1 for no limit.
    pub muzzy_decay_ms: isize,
}

impl Settings {
    /// Reads the settings; `None` with another allocator.
    pub fn read() -> Option<Self> {
        Some(Self {
            background_thread: background_thread::read().ok()?,
            dirty_decay_ms: b"arenas.dirty_decay_ms\0"[..].name().read().ok()?,
            muzzy_decay_ms: b"arenas.muzzy_decay_ms\0"[..].name().read().ok()?,
        })
    }
}

/// Writes `jemalloc dirty_decay_ms:1000,…`, in the syntax of [`VARIABLE`].
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "jemalloc background_thread:{},dirty_decay_ms:{},muzzy_decay_ms:{}",
            self.background_thread, self.dirty_decay_ms, self.muzzy_decay_ms
        )
    }
}

/// Makes jemalloc return freed pages within about a second, by background threads. Call it first in
/// `main`: it changes existing arenas and the default of later ones. Does nothing when [`VARIABLE`]
/// is set, or with another allocator.
pub fn configure() {
    if std::env::var_os(VARIABLE).is_none() {
        // Fails only when jemalloc is not the allocator; `Settings::read` reads the result.
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
        // An arena without threads cannot be set; it starts with the defaults above.
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
    fn settings_apply_to_existing_and_later_arenas() {
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
