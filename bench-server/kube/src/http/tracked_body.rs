//! The body of a response, which counts the request as in flight and limits its time until the
//! response is sent. The limit of 60 s includes the body, regardless of how slowly the client
//! reads. A watch ends by its own timeout, or 60 s later if the client does not read.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Response;
use http_body::{Body, Frame as HttpFrame, SizeHint};
use listen::TimeLimit;
use memory::in_flight;
use tokio::time::Instant;
use wire::frame::Frame;

use super::body::ResponseBody;
use crate::metrics::requests::RequestTracker;

/// The time that a client has to read the rest of a watch that has ended. HTTP polls a body,
/// including for its end, only while the client has room for more.
const LAST_READ: Duration = Duration::from_secs(60);

/// The body of a response, with the metrics and the time limit of its request.
#[derive(Debug)]
pub struct TrackedBody {
    body: ResponseBody,
    limit: Option<TimeLimit>,
    request: Option<RequestTracker>,
}

impl From<ResponseBody> for TrackedBody {
    /// Wraps the body of a response that is not counted: health, metrics, discovery.
    fn from(body: ResponseBody) -> Self {
        Self {
            body,
            limit: None,
            request: None,
        }
    }
}

impl TrackedBody {
    /// Wraps the response to `request`. A list is cut off at `until`, and a watch a minute after
    /// its own end. Other bodies are a single frame, which the connection takes immediately.
    pub(crate) fn of_request(
        mut request: RequestTracker,
        response: Response<ResponseBody>,
        until: Instant,
    ) -> Response<Self> {
        request.respond(response.status());
        response.map(|body| Self {
            limit: match &body {
                ResponseBody::List(_) | ResponseBody::Ahead(_) | ResponseBody::Encoded(_) => {
                    TimeLimit::set(until)
                }
                ResponseBody::Watch(watch) => TimeLimit::set(watch.deadline() + LAST_READ),
                ResponseBody::Full(_) => None,
            },
            body,
            request: Some(request),
        })
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        let cut_off = self.limit.as_ref().is_some_and(TimeLimit::is_exceeded);
        if let (true, Some(request)) = (cut_off, &self.request) {
            request.abort();
        }
    }
}

impl Body for TrackedBody {
    type Data = Frame;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<HttpFrame<Frame>, Infallible>>> {
        ready!(in_flight::poll_ready(context));
        let next = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(Ok(frame)) = next else {
            // The end is delayed, because once the task has ended, a stream whose client does not
            // read the rest cannot be reset.
            ready!(in_flight::poll_may_end(context));
            return Poll::Ready(next);
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(mut data) => {
                data.count_in_flight();
                HttpFrame::data(data)
            }
            Err(frame) => frame,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && in_flight::may_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
