//! The bench server's yardstick: stored records as one plain HTTP/2 body, drained.

use std::future::poll_fn;

use http::{Method, StatusCode};

use super::raw_list::{RawConnection, unavailable};
use crate::error::Error;

/// Where the bench server serves it.
const PATH: &str = "/debug/opaque";

/// Most bytes of a refusal that are repeated.
const REFUSAL_BYTES: usize = 500;

impl RawConnection {
    /// Receives `bytes` bytes of stored records as one body and throws them away: what the transport
    /// between these two processes takes for them, whatever a list adds. Nothing is looked at but the number of bytes.
    ///
    /// # Errors
    /// [`Error::Unimplemented`] from a server without it (only the bench server has it),
    /// [`Error::Protocol`] when it refuses or the body has another length, [`Error::Status`] with `Unavailable` when the connection failed.
    pub async fn drain_opaque(&self, bytes: u64) -> Result<(), Error> {
        self.drain_body(&format!("{PATH}?bytes={bytes}"), bytes)
            .await
    }

    /// Receives the body that a GET of `path` has, which must be of `bytes` bytes, and throws it away.
    ///
    /// # Errors
    /// As [`Self::drain_opaque`].
    pub async fn drain_body(&self, path: &str, bytes: u64) -> Result<(), Error> {
        let mut request = self.request(Method::GET, path)?;
        request.headers_mut().remove("te");
        let _flight = self.begin();
        let mut send = self.ready().await?;
        let (response, _) = send.send_request(request, true).map_err(unavailable)?;
        let (head, mut body) = response.await.map_err(unavailable)?.into_parts();
        let mut received = 0;
        let mut refusal = Vec::new();
        while let Some(frame) = poll_fn(|cx| body.poll_data(cx)).await {
            let frame = frame.map_err(unavailable)?;
            body.flow_control()
                .release_capacity(frame.len())
                .map_err(unavailable)?;
            received += frame.len() as u64;
            if head.status != StatusCode::OK && refusal.len() < REFUSAL_BYTES {
                refusal.extend_from_slice(&frame);
            }
        }
        match head.status {
            StatusCode::OK if received == bytes => Ok(()),
            StatusCode::OK => Err(Error::Protocol(format!(
                "{path} sent {received} bytes of {bytes}"
            ))),
            StatusCode::NOT_FOUND => Err(Error::Unimplemented(format!("no {path}"))),
            status => {
                refusal.truncate(REFUSAL_BYTES);
                let text = String::from_utf8_lossy(&refusal);
                Err(Error::Protocol(format!(
                    "{path}: {status}: {}",
                    text.trim()
                )))
            }
        }
    }
}
