//! An answer on its way. Until it is over, its request counts as being served, and its time limit holds: the
//! minute that a request has includes its body, however slowly that is read, and a watch is over soon after its
//! end, even if nobody reads so far.

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

/// Time that a client has to read what is left of a watch when that is over. A body is asked for its end only
/// while there is room for it.
const LAST_READ: Duration = Duration::from_secs(60);

/// What the tier sends.
#[derive(Debug)]
pub struct TrackedBody {
    body: ResponseBody,
    limit: Option<TimeLimit>,
    request: Option<RequestTracker>,
}

impl From<ResponseBody> for TrackedBody {
    /// An answer that nobody counts: of health, metrics, discovery.
    fn from(body: ResponseBody) -> Self {
        Self {
            body,
            limit: None,
            request: None,
        }
    }
}

impl TrackedBody {
    /// The answer to `request`; a list is cut off at `until`, and a watch a minute after its own end. Other
    /// answers are one piece, which the connection has at once.
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
        ready!(in_flight::poll_next(context));
        let next = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(Ok(frame)) = next else {
            // Without its task nobody could reset a stream whose client does not take the rest.
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
