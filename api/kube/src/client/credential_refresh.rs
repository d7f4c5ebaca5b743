//! Renews credentials that expire: a token file, which another program rewrites, and the output of
//! a credential plugin.
//!
//! A background thread renews credentials while they are still valid, so that no request of a
//! measurement waits for a plugin. A request waits only if there are no credentials yet, or if they
//! have expired or were refused.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::access::{ResolvedCredentials, bearer};
use super::error::KubeError;
use super::exec::ExecPlugin;
use super::trust_anchors::{Trust, bad};

/// Time before the expiry of credentials at which they are renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(60);
/// Time after which a token file is read again, as in client-go.
const FILE_READ_EVERY: Duration = Duration::from_secs(60);
/// Time after an attempt to renew credentials, successful or not, during which no other attempt is
/// made while they are valid.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The source of renewed credentials.
#[derive(Debug)]
pub(super) enum Source {
    /// A file with a token.
    TokenFile(PathBuf),
    /// A plugin. `trust` is used to build the TLS configuration with the plugin's certificate.
    Exec {
        plugin: ExecPlugin,
        trust: Option<Trust>,
    },
}

/// Credentials that are renewed from their source.
pub(super) struct RefreshedCredentials {
    source: Source,
    /// The part of the credentials that does not change.
    fixed: ResolvedCredentials,
    held: Mutex<Held>,
    /// Locked while the credentials are being renewed.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The latest credentials.
#[derive(Default)]
struct Held {
    prepared: Option<ResolvedCredentials>,
    /// Expiry time; `None` if the source gave none.
    ends: Option<SystemTime>,
    /// Time of the last attempt to renew them, successful or not.
    tried: Option<Instant>,
}

impl RefreshedCredentials {
    /// Returns credentials from a source. Reads a token file at once; runs no plugin yet.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] when the file cannot be read.
    pub(super) fn new(source: Source, fixed: ResolvedCredentials) -> Result<Self, KubeError> {
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

    /// Returns the current credentials, and starts to renew them if they expire soon.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] when there are no valid credentials.
    pub(super) async fn current(self: &Arc<Self>) -> Result<ResolvedCredentials, KubeError> {
        if let Some(prepared) = self.usable() {
            if self.is_due()
                && let Ok(turn) = Arc::clone(&self.turn).try_lock_owned()
            {
                let renewed = Arc::clone(self);
                tokio::task::spawn_blocking(move || {
                    // A later call tries again after a failure, and returns the error once these
                    // have expired.
                    renewed.renew().ok();
                    drop(turn);
                });
            }
            return Ok(prepared);
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Another task may have renewed them meanwhile.
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

    /// Records that the server has refused these credentials. Returns whether to retry with others:
    /// false if the refused ones are the latest and the last attempt to renew them, successful or
    /// not, was less than [`TRIED_AGAIN_AFTER`] ago.
    pub(super) fn refused(&self, used: &ResolvedCredentials) -> bool {
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

    /// Returns the latest credentials, unless they have expired.
    fn usable(&self) -> Option<ResolvedCredentials> {
        let held = self.held.lock();
        let has_ended = match self.source {
            // The token may be valid beyond the time at which its file is read again.
            Source::TokenFile(_) => false,
            Source::Exec { .. } => held.ends.is_some_and(|ends| ends <= SystemTime::now()),
        };
        held.prepared.clone().filter(|_| !has_ended)
    }

    /// Returns whether it is time to renew the credentials.
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

    /// Reads the file or runs the plugin, and stores the result. Blocks.
    fn renew(&self) -> Result<ResolvedCredentials, KubeError> {
        let renewal = self.fetched();
        let mut held = self.held.lock();
        held.tried = Some(Instant::now());
        let (prepared, ends) = renewal?;
        held.prepared = Some(prepared.clone());
        held.ends = ends;
        Ok(prepared)
    }

    fn fetched(&self) -> Result<(ResolvedCredentials, Option<SystemTime>), KubeError> {
        let fixed = self.fixed.clone();
        match &self.source {
            Source::TokenFile(path) => {
                let named = |e: &dyn std::fmt::Display| bad(&path.display().to_string(), e);
                let token = std::fs::read_to_string(path).map_err(|e| named(&e))?;
                if token.trim().is_empty() {
                    return Err(named(&"it has no token"));
                }
                let prepared = ResolvedCredentials {
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
                let prepared = ResolvedCredentials { tls, authorization };
                Ok((prepared, issued.ends))
            }
        }
    }
}

#[cfg(test)]
mod tests;
