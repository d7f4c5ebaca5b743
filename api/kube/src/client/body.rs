//! The body of a response: decompresses gzip, and optionally reads at the pace of a slow reader.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until};

use super::error::KubeError;

/// The pace of a slow reader.
#[derive(Debug)]
pub struct ReadPace {
    bytes_per_s: u32,
    begun: Option<Instant>,
}

impl ReadPace {
    /// Returns a pace of `bytes_per_s`, counted from the first byte.
    #[must_use]
    pub fn new(bytes_per_s: u32) -> Self {
        Self {
            bytes_per_s,
            begun: None,
        }
    }

    /// Waits until a reader at this pace would have read `bytes` since its first byte.
    async fn wait_until_read(&mut self, bytes: u64) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let took = Duration::from_secs_f64(bytes as f64 / f64::from(self.bytes_per_s.max(1)));
        sleep_until(begun + took).await;
    }
}

/// Reads a whole body, without decompressing it.
///
/// # Errors
/// [`KubeError::Body`] when the connection breaks or the body is longer than `max_bytes`.
pub async fn read_whole(incoming: Incoming, max_bytes: usize) -> Result<Bytes, KubeError> {
    let collected = Limited::new(incoming, max_bytes).collect().await;
    let collected = collected.map_err(|e| KubeError::Body(e.to_string()))?;
    Ok(collected.to_bytes())
}

/// Receives a body to its end without keeping it.
///
/// # Errors
/// [`KubeError::Body`] when the connection breaks.
pub async fn discard(mut incoming: Incoming) -> Result<(), KubeError> {
    while let Some(frame) = incoming.frame().await {
        frame.map_err(|e| KubeError::Body(e.to_string()))?;
    }
    Ok(())
}

/// A body being received. Dropping it cancels it (over HTTP/1.1 by closing the connection).
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    // A watch has a gzip member for each flush; all members together are one text.
    gzip: Option<MultiGzDecoder<Vec<u8>>>,
    pace: Option<ReadPace>,
    wire_bytes: u64,
}

impl Body {
    pub(super) fn new(incoming: Incoming, gzip: bool, pace: Option<ReadPace>) -> Self {
        Self {
            incoming,
            gzip: gzip.then(|| MultiGzDecoder::new(Vec::new())),
            pace,
            wire_bytes: 0,
        }
    }

    /// Returns the bytes received so far, before decompression.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    /// Returns the next decompressed bytes, or `None` at the end.
    ///
    /// # Errors
    /// [`KubeError::CutOff`] when the connection breaks, [`KubeError::Body`] for invalid gzip.
    pub async fn next(&mut self) -> Result<Option<Bytes>, KubeError> {
        let broken = |e: &dyn std::fmt::Display| KubeError::Body(e.to_string());
        loop {
            let Some(frame) = self.incoming.frame().await else {
                if let Some(gzip) = &mut self.gzip {
                    gzip.try_finish().map_err(|e| broken(&e))?;
                    let rest = std::mem::take(gzip.get_mut());
                    return Ok((!rest.is_empty()).then(|| rest.into()));
                }
                return Ok(None);
            };
            let frame = frame.map_err(|e| KubeError::CutOff {
                bytes: self.wire_bytes,
                reason: e.to_string(),
            })?;
            let Ok(bytes) = frame.into_data() else {
                continue;
            };
            self.wire_bytes += bytes.len() as u64;
            if let Some(pace) = &mut self.pace {
                pace.wait_until_read(self.wire_bytes).await;
            }
            let Some(gzip) = &mut self.gzip else {
                return Ok(Some(bytes));
            };
            gzip.write_all(&bytes).map_err(|e| broken(&e))?;
            gzip.flush().map_err(|e| broken(&e))?;
            if !gzip.get_ref().is_empty() {
                return Ok(Some(std::mem::take(gzip.get_mut()).into()));
            }
        }
    }

    /// Reads and discards the rest of the body; returns the number of decompressed bytes.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn discard(&mut self) -> Result<u64, KubeError> {
        let mut bytes = 0;
        while let Some(part) = self.next().await? {
            bytes += part.len() as u64;
        }
        Ok(bytes)
    }
}
