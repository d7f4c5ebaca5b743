//! Switches that make the storage fail, and counters of its calls.

use std::sync::atomic::{AtomicBool, Ordering};

use etcd_api::error::Error;

use super::FakeEtcd;

impl FakeEtcd {
    pub(crate) fn set_no_stream(&self, no_stream: bool) {
        self.0.no_stream.store(no_stream, Ordering::SeqCst);
    }

    pub(crate) fn set_silent(&self, silent: bool) {
        self.0.silent.store(silent, Ordering::SeqCst);
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::SeqCst);
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.0.broken.store(broken, Ordering::SeqCst);
    }

    pub(crate) fn set_has_progress(&self, has_progress: bool) {
        self.0.has_progress.store(has_progress, Ordering::SeqCst);
    }

    pub(crate) fn set_no_features(&self, no_features: bool) {
        self.0.no_features.store(no_features, Ordering::SeqCst);
    }

    pub(crate) fn set_no_revisions(&self, no_revisions: bool) {
        self.0.no_revisions.store(no_revisions, Ordering::SeqCst);
    }

    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.0.stuck.store(stuck, Ordering::SeqCst);
    }

    pub(crate) fn progress_requests(&self) -> usize {
        self.0.progress_requests.load(Ordering::SeqCst)
    }

    /// Returns the number of lists by RangeStream, and the number of pages.
    pub(crate) fn lists(&self) -> (usize, usize) {
        (
            self.0.streams.load(Ordering::SeqCst),
            self.0.pages.load(Ordering::SeqCst),
        )
    }

    pub(super) fn up(&self) -> Result<(), Error> {
        assert!(!self.0.broken.load(Ordering::SeqCst), "this fake is broken");
        unless(&self.0.down)
    }

    pub(super) fn has_revisions(&self) -> Result<(), Error> {
        unless(&self.0.no_revisions)
    }
}

fn unless(switch: &AtomicBool) -> Result<(), Error> {
    match switch.load(Ordering::SeqCst) {
        true => Err(Error::Unreachable {
            endpoint: "fake".into(),
            reason: "switched off".into(),
        }),
        false => Ok(()),
    }
}
