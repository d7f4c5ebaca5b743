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

use super::body::KubeBody;
use crate::metrics::requests::Underway;

/// Time that a client has to read what is left of a watch when that is over. A body is asked for its end only
/// while there is room for it.
const LAST_READ: Duration = Duration::from_secs(60);

/// What the tier sends.
#[derive(Debug)]
pub struct Reply {
    body: KubeBody,
    limit: Option<TimeLimit>,
    request: Option<Underway>,
}

impl From<KubeBody> for Reply {
    /// An answer that nobody counts: of health, metrics, discovery.
    fn from(body: KubeBody) -> Self {
        Self {
            body,
            limit: None,
            request: None,
        }
    }
}

impl Reply {
    /// The answer to `request`; a list is cut off at `until`, and a watch a minute after its own end. Other
    /// answers are one piece, which the connection has at once.
    pub(crate) fn to(
        mut request: Underway,
        response: Response<KubeBody>,
        until: Instant,
    ) -> Response<Self> {
        request.answered(response.status());
        response.map(|body| Self {
            limit: match &body {
                KubeBody::List(_) | KubeBody::Ahead(_) | KubeBody::Dressed(_) => {
                    TimeLimit::set(until)
                }
                KubeBody::Watch(watch) => TimeLimit::set(watch.deadline() + LAST_READ),
                KubeBody::Full(_) => None,
            },
            body,
            request: Some(request),
        })
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let cut_off = self.limit.as_ref().is_some_and(TimeLimit::is_exceeded);
        if let (true, Some(request)) = (cut_off, &self.request) {
            request.abort();
        }
    }
}

impl Body for Reply {
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
