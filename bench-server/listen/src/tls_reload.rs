//! Reloads certificates, keys and CAs that change while the server runs.
//!
//! The files are read for each accepted connection, as etcd does with certificate and key, and
//! compared by content, because a mounted Secret changes by a symlink, which does not change the
//! times of its files. A change makes a new configuration, without the sessions of the old one: a
//! resumed session would skip a new verifier of client certificates.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::tls::{Contents, TlsError, TlsFiles};

/// The TLS configuration of a tier's https:// listeners, from the current files.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    /// The loaded configuration; `None` before the first https:// URL.
    loaded: Mutex<Option<Loaded>>,
    reloads: Family<Outcome, Counter>,
}

struct Loaded {
    /// The current configuration.
    config: Arc<ServerConfig>,
    /// The contents that were read last, usable or not, or the error of reading them.
    seen: Result<Contents, String>,
}

impl std::fmt::Debug for Loaded {
    /// Omits the contents, because they include a private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Loaded")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

const SUCCESS: Outcome = Outcome { result: "success" };
const FAILURE: Outcome = Outcome { result: "failure" };

impl ServerTls {
    /// Returns the TLS configuration of these files, which [`Self::load`] reads.
    pub fn new(files: TlsFiles) -> Self {
        Self {
            files,
            loaded: Mutex::new(None),
            reloads: Family::default(),
        }
    }

    /// Registers the counter of reloads.
    pub fn register(&self, registry: &mut Registry) {
        for outcome in [SUCCESS, FAILURE] {
            // Creates the series, so that it is exported as 0 instead of being absent.
            drop(self.reloads.get_or_create(&outcome));
        }
        registry.register(
            "bench_server_tls_reloads",
            "Changes of the TLS files, by whether what they hold could be used",
            self.reloads.clone(),
        );
    }

    /// Reads the files, unless they were loaded before.
    ///
    /// # Errors
    /// [`TlsError`] with the flag or the file.
    pub fn load(&self) -> Result<(), TlsError> {
        let mut loaded = self.loaded.lock();
        if loaded.is_none() {
            let contents = self.files.read()?;
            *loaded = Some(Loaded {
                config: Arc::new(self.files.server_config(&contents)?),
                seen: Ok(contents),
            });
        }
        Ok(())
    }

    /// Returns the acceptor of the next connection, from the current files or, if these are
    /// unusable, the last usable ones. `None` before [`Self::load`].
    pub fn acceptor(&self) -> Option<TlsAcceptor> {
        let mut loaded = self.loaded.lock();
        let loaded = loaded.as_mut()?;
        self.refresh(loaded);
        Some(TlsAcceptor::from(loaded.config.clone()))
    }

    /// Applies changes of the files. Each change is logged and counted once.
    fn refresh(&self, loaded: &mut Loaded) {
        let now = self.files.read().map_err(|error| error.to_string());
        if now == loaded.seen {
            return;
        }
        let config = match &now {
            Ok(contents) => self.files.server_config(contents),
            Err(reason) => Err(TlsError::Settings(reason.clone())),
        };
        loaded.seen = now;
        let cert = self.files.cert.as_deref().unwrap_or("".as_ref()).display();
        match config {
            Ok(config) => {
                loaded.config = Arc::new(config);
                self.reloads.get_or_create(&SUCCESS).inc();
                tracing::info!("the TLS files have changed: connections now get {cert} anew");
            }
            Err(error) => {
                self.reloads.get_or_create(&FAILURE).inc();
                tracing::warn!(
                    "the TLS files have changed and are not used, what was read of {cert} before is: {error}"
                );
            }
        }
    }
}
