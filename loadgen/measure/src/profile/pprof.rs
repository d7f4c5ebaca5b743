//! Profiles of Go servers, by `net/http/pprof`.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube_api::client::{Connection, KubeAccess, KubeError, Options, expect_success, read_whole};
use tokio::time::timeout;

use super::{ProfileError, SAMPLE_FOR_MOST};

/// The list of profiles that a server has.
const INDEX: &str = "/debug/pprof/";
/// How long a server may take to send it.
const INDEX_WITHIN: Duration = Duration::from_secs(10);
/// How much longer than it samples a server may take to send a profile: it looks up the names of
/// all functions first.
const SENT_WITHIN: Duration = Duration::from_secs(20);
/// A response beyond this is not read to its end. Half a minute of etcd has some 100 KiB.
const LARGEST: usize = 32 << 20;

/// A server that samples itself.
#[derive(Debug)]
pub struct Pprof {
    connection: Connection,
}

impl Pprof {
    /// Asks the server at `url` whether it has profiles; costs it next to nothing.
    ///
    /// # Errors
    /// [`ProfileError::Server`] when it has none, with 404, and when it may not be asked; within
    /// ten seconds.
    pub async fn open(url: &str, access: KubeAccess) -> Result<Self, ProfileError> {
        let connection = Connection::new(url, access, Options::default())?;
        let mut pprof = Self { connection };
        match timeout(INDEX_WITHIN, pprof.get(INDEX)).await {
            Ok(index) => index?,
            Err(_) => {
                let within = INDEX_WITHIN.as_secs();
                return Err(KubeError::Body(format!("no {INDEX} within {within} s")).into());
            }
        };
        Ok(pprof)
    }

    /// Lets the server sample itself for so many whole seconds, one at least and
    /// [`SAMPLE_FOR_MOST`] at most; returns the profile as it sent it, a compressed message of
    /// `profile.proto`. Samples are of CPU time: an idle server has none.
    ///
    /// # Errors
    /// [`ProfileError`] when it does not send one: with 500 while somebody else profiles it.
    pub async fn profile(&mut self, time: Duration) -> Result<(Bytes, Duration), ProfileError> {
        let seconds = time.as_secs_f64().ceil() as u64;
        let seconds = seconds.clamp(1, SAMPLE_FOR_MOST.as_secs());
        let path = format!("{INDEX}profile?seconds={seconds}");
        let sampled = Duration::from_secs(seconds);
        let within = sampled + SENT_WITHIN;
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
        read_whole(response.into_body(), LARGEST).await
    }
}
