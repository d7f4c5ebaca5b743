//! The bytes of an answer: unzipped where they came zipped, and read no faster than a slow reader would.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until};

use super::error::KubeError;

/// How fast a slow reader reads.
#[derive(Debug)]
pub struct ReadPace {
    bytes_per_s: u32,
    begun: Option<Instant>,
}

impl ReadPace {
    /// So many bytes a second, counted from the first.
    #[must_use]
    pub fn new(bytes_per_s: u32) -> Self {
        Self {
            bytes_per_s,
            begun: None,
        }
    }

    /// Returns when a reader of this pace would have read `bytes` in all.
    async fn read(&mut self, bytes: u64) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let took = Duration::from_secs_f64(bytes as f64 / f64::from(self.bytes_per_s.max(1)));
        sleep_until(begun + took).await;
    }
}

/// An answer's bytes as they came, all of them.
///
/// # Errors
/// [`KubeError::Body`] when it breaks, or is longer than `most` bytes.
pub async fn whole(incoming: Incoming, most: usize) -> Result<Bytes, KubeError> {
    let collected = Limited::new(incoming, most).collect().await;
    let collected = collected.map_err(|e| KubeError::Body(e.to_string()))?;
    Ok(collected.to_bytes())
}

/// A body under way. Dropped, it is cancelled (on HTTP/1.1 with its connection).
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    // A watch is sent as one gzip member for each flush, and they are one text.
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

    /// Bytes received so far, as they came.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    /// The next bytes of the text; `None` at its end.
    ///
    /// # Errors
    /// [`KubeError::CutOff`] when the connection breaks, [`KubeError::Body`] when what came is no gzip.
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
                pace.read(self.wire_bytes).await;
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

    /// Reads to the end and throws away; bytes of the text.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn drain(&mut self) -> Result<u64, KubeError> {
        let mut bytes = 0;
        while let Some(part) = self.next().await? {
            bytes += part.len() as u64;
        }
        Ok(bytes)
    }
}
