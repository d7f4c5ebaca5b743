//! Credentials that run out: a token's file, which somebody else rewrites, and what a plugin
//! returns.
//!
//! They are renewed on a thread beside while they can still be used, so that no request of a
//! measurement waits for a plugin. Only the first, and one whose credentials have run out or were
//! refused, waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::access::{Prepared, bearer};
use super::error::KubeError;
use super::exec::ExecPlugin;
use super::trust_anchors::{Trust, bad};

/// How long before their end credentials are renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(60);
/// How long a token is used before its file is read again, as client-go does.
const FILE_READ_EVERY: Duration = Duration::from_secs(60);
/// How long after a renewal, or a try, the next is not worth it.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Where credentials come from.
#[derive(Debug)]
pub(super) enum Source {
    /// A file with a token.
    TokenFile(PathBuf),
    /// A plugin; `trust` is what the TLS configuration of its certificates is made with.
    Exec {
        plugin: ExecPlugin,
        trust: Option<Trust>,
    },
}

/// Credentials that are renewed.
pub(super) struct RefreshedCredentials {
    source: Source,
    /// What does not change.
    fixed: Prepared,
    held: Mutex<Held>,
    /// Held by whoever renews them.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// What is held of them.
#[derive(Default)]
struct Held {
    prepared: Option<Prepared>,
    /// When they run out; `None` where nobody said.
    ends: Option<SystemTime>,
    /// When they were renewed last, or that was tried.
    tried: Option<Instant>,
}

impl RefreshedCredentials {
    /// Returns credentials from a source. A file is read.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] when the file cannot be read.
    pub(super) fn new(source: Source, fixed: Prepared) -> Result<Self, KubeError> {
        let renewed = Self {
            source,
            fixed,
            held: Mutex::default(),
            turn: Arc::default(),
        };
        if let Source::TokenFile(_) = renewed.source {
            renewed.renew()?;
        }
        Ok(renewed)
    }

    /// Returns the credentials as of now.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] when there are none that can be used.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Prepared, KubeError> {
        if let Some(prepared) = self.usable() {
            if self.is_due()
                && let Ok(turn) = Arc::clone(&self.turn).try_lock_owned()
            {
                let renewed = Arc::clone(self);
                tokio::task::spawn_blocking(move || {
                    // A failure is tried again, and an error once the credentials have run out.
                    renewed.renew().ok();
                    drop(turn);
                });
            }
            return Ok(prepared);
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Somebody else may have renewed them meanwhile.
        if let Some(prepared) = self.usable() {
            return Ok(prepared);
        }
        let renewed = Arc::clone(self);
        let renewal = tokio::task::spawn_blocking(move || {
            let renewal = renewed.renew();
            drop(turn);
            renewal
        });
        renewal.await.map_err(|e| bad("credentials", &e))?
    }

    /// Notes that the server has refused these. Returns whether it is worth trying others: not
    /// where the ones that were refused are new.
    pub(super) fn refused(&self, used: &Prepared) -> bool {
        let mut held = self.held.lock();
        let now = held.prepared.as_ref().map(|now| &now.authorization);
        if now.is_some_and(|now| *now != used.authorization) {
            return true;
        }
        if held
            .tried
            .is_some_and(|at| at.elapsed() < TRIED_AGAIN_AFTER)
        {
            return false;
        }
        held.prepared = None;
        true
    }

    /// Returns what is held, where it has not run out.
    fn usable(&self) -> Option<Prepared> {
        let held = self.held.lock();
        let has_ended = match self.source {
            // It may be good for longer than until it is looked for in its file again.
            Source::TokenFile(_) => false,
            Source::Exec { .. } => held.ends.is_some_and(|ends| ends <= SystemTime::now()),
        };
        held.prepared.clone().filter(|_| !has_ended)
    }

    /// Returns whether it is time to renew them.
    fn is_due(&self) -> bool {
        let held = self.held.lock();
        let before = match self.source {
            Source::TokenFile(_) => Duration::ZERO,
            Source::Exec { .. } => RENEWED_BEFORE,
        };
        let soon = SystemTime::now() + before;
        let may_try = held
            .tried
            .is_none_or(|at| at.elapsed() >= TRIED_AGAIN_AFTER);
        may_try && held.ends.is_some_and(|ends| ends <= soon)
    }

    /// Reads the file or runs the plugin, and holds what comes. Blocks.
    fn renew(&self) -> Result<Prepared, KubeError> {
        let renewal = self.fetched();
        let mut held = self.held.lock();
        held.tried = Some(Instant::now());
        let (prepared, ends) = renewal?;
        held.prepared = Some(prepared.clone());
        held.ends = ends;
        Ok(prepared)
    }

    fn fetched(&self) -> Result<(Prepared, Option<SystemTime>), KubeError> {
        let fixed = self.fixed.clone();
        match &self.source {
            Source::TokenFile(path) => {
                let named = |e: &dyn std::fmt::Display| bad(&path.display().to_string(), e);
                let token = std::fs::read_to_string(path).map_err(|e| named(&e))?;
                if token.trim().is_empty() {
                    return Err(named(&"it has no token"));
                }
                let prepared = Prepared {
                    authorization: Some(bearer(token.trim())?),
                    ..fixed
                };
                Ok((prepared, Some(SystemTime::now() + FILE_READ_EVERY)))
            }
            Source::Exec { plugin, trust } => {
                let issued = plugin.run()?;
                let authorization = issued.token.as_deref().map(bearer).transpose()?;
                let tls = match (&issued.identity, trust) {
                    (Some(_), Some(trust)) => Some(trust.client(issued.identity.as_ref())?),
                    _ => fixed.tls,
                };
                let prepared = Prepared { tls, authorization };
                Ok((prepared, issued.ends))
            }
        }
    }
}

#[cfg(test)]
mod tests;
