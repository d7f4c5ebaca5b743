//! Describes the machine and the program that made a result.

use bench_server::memory::allocator::Settings;
use report::result::Environment;

/// Returns what is known about machine and program before a run. The driver adds servers, client
/// and disk, and [`crate::isolation::Isolation`] adds network and CPUs. `command` is the command
/// line for the result.
#[must_use]
pub fn environment(command: Vec<String>) -> Environment {
    let machine = measure::machine();
    Environment {
        host: machine.host,
        machine: machine.architecture,
        cpu_model: machine.cpu_model,
        cores: machine.cores,
        memory_bytes: machine.memory_bytes,
        os: machine.os,
        kernel: machine.kernel,
        free_page_lists: machine.free_page_lists,
        free_page_reporting: machine.free_page_reporting,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("LOADGEN_COMMIT")
            .filter(|commit| !commit.is_empty())
            .map(str::to_owned),
        profile: if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
        .to_owned(),
        command,
        ..Environment::default()
    }
}

/// Returns the allocator of this program and of the servers that it starts from its own binary,
/// with its settings: `jemalloc background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0`.
#[must_use]
pub fn allocator() -> String {
    Settings::read().map_or_else(|| "jemalloc".to_owned(), |settings| settings.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_and_program_are_described() {
        let environment = environment(vec!["loadgen".into()]);
        assert!(environment.cores > 0 && environment.memory_bytes > 0);
        assert_ne!(environment.kernel, "unknown");
        assert_eq!(environment.version, env!("CARGO_PKG_VERSION"));
    }
}
