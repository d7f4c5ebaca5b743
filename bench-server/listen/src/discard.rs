//! Reads the rest of a request that a handler does not use.
//!
//! If a response is sent before the request has ended, hyper resets the HTTP/2 stream and ignores
//! the rest of the request. A body longer than its `content-length`, for example, would then be an
//! error or not depending on timing.

use std::pin::pin;
use std::time::Duration;

use http_body::Body;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

/// Maximum number of bytes that are read. Longer requests are cut off by the response.
const MAX_BYTES: usize = 64 * 1024;

/// Time allowed for reading the rest.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a request's body to its end, within limits, and discards it. Costs nothing for an empty
/// body.
pub async fn discard<B>(body: B)
where
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    if body.is_end_stream() {
        return;
    }
    let mut rest = pin!(Limited::new(body, MAX_BYTES));
    // The response is the same for a request that breaks off or is too long.
    let read = async { while let Some(Ok(_)) = rest.frame().await {} };
    timeout(TIMEOUT, read).await.ok();
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_to_its_end_or_to_the_limit() {
        for (pieces, most) in [(3, 3), (1_000, MAX_BYTES / 1_024 + 1)] {
            let read = Cell::new(0);
            let frames = stream::iter(0..pieces).map(|_| {
                read.set(read.get() + 1);
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 1_024])))
            });
            discard(StreamBody::new(frames)).await;
            assert_eq!(read.get(), most, "of {pieces}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_end_is_waited_for_so_long() {
        let begun = Instant::now();
        discard(StreamBody::new(stream::pending::<
            Result<Frame<Bytes>, Infallible>,
        >()))
        .await;
        assert_eq!(begun.elapsed(), TIMEOUT);
    }
}
