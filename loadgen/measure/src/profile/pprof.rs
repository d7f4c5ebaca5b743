//! Profiles of Go servers, served by `net/http/pprof`.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube_api::client::{Connection, KubeAccess, KubeError, Options, expect_success, read_whole};
use tokio::time::timeout;

use super::{MAX_SAMPLING_TIME, ProfileError};

/// The path of a server's list of profiles.
const INDEX: &str = "/debug/pprof/";
/// The longest time that the list may take.
const INDEX_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that a server may take to send a profile after it has sampled: it resolves all
/// function names first.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest response that is read, in bytes. Half a minute of etcd has some 100 KiB.
const MAX_PROFILE_BYTES: usize = 32 << 20;

/// A client of a server that samples itself.
#[derive(Debug)]
pub struct Pprof {
    connection: Connection,
}

impl Pprof {
    /// Connects to the server at `url` and checks that it serves profiles, at next to no cost for
    /// the server.
    ///
    /// # Errors
    /// [`ProfileError::Server`] if it serves none (404), does not permit access, or does not
    /// respond within ten seconds.
    pub async fn open(url: &str, access: KubeAccess) -> Result<Self, ProfileError> {
        let connection = Connection::new(url, access, Options::default())?;
        let mut pprof = Self { connection };
        match timeout(INDEX_TIMEOUT, pprof.get(INDEX)).await {
            Ok(index) => index?,
            Err(_) => {
                let within = INDEX_TIMEOUT.as_secs();
                return Err(KubeError::Timeout(format!("no {INDEX} within {within} s")).into());
            }
        };
        Ok(pprof)
    }

    /// Lets the server sample itself for `time`, rounded up to whole seconds, from one to
    /// [`MAX_SAMPLING_TIME`]. Returns the response unchanged, a compressed message of
    /// `profile.proto`, and the duration of sampling. Samples are of CPU time: an idle server has
    /// none.
    ///
    /// # Errors
    /// [`ProfileError`] if the server sends no profile, as with 500 while another client profiles
    /// it.
    pub async fn profile(&mut self, time: Duration) -> Result<(Bytes, Duration), ProfileError> {
        let seconds = time.as_secs_f64().ceil() as u64;
        let seconds = seconds.clamp(1, MAX_SAMPLING_TIME.as_secs());
        let path = format!("{INDEX}profile?seconds={seconds}");
        let sampled = Duration::from_secs(seconds);
        let within = sampled + SEND_TIMEOUT;
        let sent = timeout(within, self.get(&path)).await;
        let sent = sent.map_err(|_| ProfileError::Late {
            seconds,
            within: within.as_secs(),
        })?;
        Ok((sent?, sampled))
    }

    async fn get(&mut self, path: &str) -> Result<Bytes, KubeError> {
        let sent = self
            .connection
            .send(Method::GET, path, HeaderMap::new(), Bytes::new());
        let response = expect_success(Method::GET, path, sent.await?).await?;
        read_whole(response.into_body(), MAX_PROFILE_BYTES).await
    }
}
