//! Reads a plain HTTP/2 body unchecked: the baseline that lists are compared with.

use std::future::poll_fn;

use http::{Method, StatusCode};

use super::raw_list::{RawConnection, unavailable};
use crate::error::Error;

impl RawConnection {
    /// Sends a GET request for `path` and discards the body, checking only that it has `bytes`
    /// bytes. This measures the cost of the transport between two processes.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the server refuses the request or the body has another length,
    /// [`Error::Status`] with `Unavailable` when the connection failed.
    pub async fn read_body_unchecked(&self, path: &str, bytes: u64) -> Result<(), Error> {
        let mut request = self.request(Method::GET, path)?;
        request.headers_mut().remove("te");
        let _in_flight = self.begin();
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
            return Err(Error::Protocol(format!(
                "GET {path} returned HTTP status {}",
                head.status
            )));
        }
        if received != bytes {
            let text = format!("GET {path} returned {received} bytes, not {bytes}");
            return Err(Error::Protocol(text));
        }
        Ok(())
    }
}
