//! Tests with child processes that do a known amount of work and then wait until a pipe is closed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::{Sampled, Sampler, Watched};

const MIB: u64 = 1 << 20;

/// A shell that runs `work`, prints `done`, and then waits until its standard input is closed.
/// Dropping it kills it.
struct Worker(Child);

impl Worker {
    fn start(work: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{work}; echo done; read _")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("every system has a shell");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it was asked for");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("a pipe can be read");
        assert_eq!(line, "done\n");
        Self(child)
    }

    fn process(&self) -> Process {
        Process::new(self.0.id()).expect("the child waits for its input")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().expect("the child is ours");
        self.0.wait().expect("the child was killed");
    }
}

#[test]
fn the_peak_remembers_what_was_freed_until_it_is_reset() {
    let worker = Worker::start(&format!("x=$(printf '%{}s' ''); unset x", 32 * MIB));
    let process = worker.process();
    let before = process.memory().expect("the child lives");
    assert!(
        before.peak >= 32 * MIB,
        "a string of 32 MiB leaves its mark: {before:?}"
    );
    assert!(
        before.rss >= before.anon + before.file,
        "resident is anonymous and mapped: {before:?}"
    );
    process.reset_peak().expect("the child is ours");
    let after = process.memory().expect("the child lives");
    // The kernel may reclaim pages meanwhile: the peak is at least the resident size, and not
    // always equal to it.
    assert!(
        after.rss <= after.peak && after.peak < 32 * MIB,
        "what was freed is forgotten: {after:?}"
    );
}

#[test]
fn cpu_time_is_counted_finer_than_ticks_and_only_while_it_runs() {
    let idle = Worker::start(":");
    let busy = Worker::start("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
    let (idle, busy_cpu) = (
        idle.process().cpu().expect("it lives"),
        busy.process().cpu().expect("it lives"),
    );
    assert!(
        busy_cpu > idle,
        "a hundred thousand turns cost more than none: {busy_cpu:?} {idle:?}"
    );
    assert_ne!(
        busy_cpu.as_nanos() % 1_000_000,
        0,
        "whole milliseconds would be ticks: {busy_cpu:?}"
    );
    let process = busy.process();
    let first = process.cpu().expect("it lives");
    assert_eq!(
        process.cpu().expect("it lives"),
        first,
        "it waits for its input and uses nothing"
    );
}

#[test]
fn a_process_that_has_ended_is_an_error_not_zeroes() {
    let worker = Worker::start(":");
    let process = worker.process();
    drop(worker);
    assert!(!process.is_alive());
    assert!(process.memory().is_err());
    assert!(process.cpu().is_err());
}

#[test]
fn a_sampler_has_a_first_and_a_last_sample_however_short_the_phase() {
    let worker = Worker::start(":");
    let watched = vec![
        Watched {
            name: "etcd".into(),
            process: worker.process(),
            allocated: None,
        },
        Watched {
            name: "loadgen".into(),
            process: Process::own().expect("we live"),
            allocated: None,
        },
    ];
    let sampler = Sampler::start(watched, Duration::from_secs(3_600)).expect("a thread");
    let Sampled {
        series,
        most_socket_memory,
    } = sampler.stop();
    assert!(most_socket_memory.is_some(), "every Linux tells it");
    for series in &series {
        assert!(series.samples.len() >= 2, "{series:?}");
        assert!(series.samples.iter().all(|sample| sample.rss > 0));
    }
    let own = &series[1].samples;
    assert!(
        own.last().expect("two samples").cpu_s >= own[0].cpu_s,
        "CPU time never runs back"
    );
}

#[test]
fn files_sockets_and_threads_are_counted_apart() {
    let process = Process::own().expect("this process");
    let before = process.handles().expect("its own descriptors");
    let file = std::fs::File::open("/dev/null").expect("every system has it");
    let listeners: Vec<_> = (0..3)
        .map(|_| std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port"))
        .collect();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    let more = process.handles().expect("its own descriptors");
    // Other tests of this process open and close descriptors meanwhile.
    assert!(more.sockets >= 3 && more.files >= 1 && more.threads >= 2);
    let worker = Worker::start("exec 7</dev/null");
    let child = Process::new(worker.0.id()).expect("it waits");
    let held = child.handles().expect("ours");
    assert_eq!((held.sockets, held.threads), (0, 1), "{held:?}, {before:?}");
    assert!(
        held.files >= 4,
        "three of every process, and one more: {held:?}"
    );
    drop((file, listeners, stop));
    thread.join().expect("it ends").expect_err("nobody sent");
}
