//! A plain HTTP/2 body, received and thrown away: the baseline that lists are held against.

use std::future::poll_fn;

use http::{Method, StatusCode};

use super::raw_list::{RawConnection, unavailable};
use crate::error::Error;

impl RawConnection {
    /// Receives the body that a GET of `path` has, which must be of `bytes` bytes, and throws it away: what the transport
    /// between these two processes takes for them. Nothing is looked at but the number of bytes.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the server refuses or the body has another length, [`Error::Status`] with `Unavailable` when
    /// the connection failed.
    pub async fn drain_body(&self, path: &str, bytes: u64) -> Result<(), Error> {
        let mut request = self.request(Method::GET, path)?;
        request.headers_mut().remove("te");
        let _flight = self.begin();
        let mut send = self.ready().await?;
        let (response, _) = send.send_request(request, true).map_err(unavailable)?;
        let (head, mut body) = response.await.map_err(unavailable)?.into_parts();
        let mut received = 0;
        while let Some(frame) = poll_fn(|cx| body.poll_data(cx)).await {
            let frame = frame.map_err(unavailable)?;
            body.flow_control()
                .release_capacity(frame.len())
                .map_err(unavailable)?;
            received += frame.len() as u64;
        }
        if head.status != StatusCode::OK {
            return Err(Error::Protocol(format!("{path}: {}", head.status)));
        }
        if received != bytes {
            let text = format!("{path} sent {received} bytes of {bytes}");
            return Err(Error::Protocol(text));
        }
        Ok(())
    }
}
