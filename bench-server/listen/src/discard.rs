//! The rest of a request that nothing here reads.
//!
//! A response that is sent before the request has ended makes hyper reset the HTTP/2 stream, and whatever of
//! the request comes later is ignored: a body that is longer than its `content-length`, say, would be an error or
//! not depending on which side is faster.

use std::pin::pin;
use std::time::Duration;

use http_body::Body;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

/// Bytes that are read at most. What is longer is cut off by the response.
const MOST_BYTES: usize = 64 * 1024;

/// How long the rest may take.
const WITHIN: Duration = Duration::from_secs(5);

/// Reads a request's body to its end, within limits, and drops it. Costs nothing where there is none.
pub async fn discard<B>(body: B)
where
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    if body.is_end_stream() {
        return;
    }
    let mut rest = pin!(Limited::new(body, MOST_BYTES));
    // A request that breaks off, or goes on for too long, is answered as it is.
    let read = async { while let Some(Ok(_)) = rest.frame().await {} };
    timeout(WITHIN, read).await.ok();
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
        for (pieces, most) in [(3, 3), (1_000, MOST_BYTES / 1_024 + 1)] {
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
        assert_eq!(begun.elapsed(), WITHIN);
    }
}
