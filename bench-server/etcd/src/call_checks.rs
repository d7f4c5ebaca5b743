//! The checks that grpc-go makes before a service receives a call: content type, deadline, method.
//! Also ends a call at its deadline.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame as HttpFrame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use wire::grpc::error_response;

use super::frames::ResponseBody;

const GRPC: &[u8] = b"application/grpc";

/// Returns whether the content type of a request starts with that of gRPC, even if it is malformed.
pub(super) fn claims_grpc(headers: &HeaderMap) -> bool {
    content_type(headers).starts_with(GRPC)
}

fn content_type(headers: &HeaderMap) -> &[u8] {
    headers
        .get(header::CONTENT_TYPE)
        .map_or(&[], |value| value.as_bytes())
}

/// Returns the deadline of the call, if it has one.
///
/// # Errors
/// The response to a request that no gRPC client sends (with an invalid gRPC content type, a
/// malformed timeout, or a method other than POST), or whose timeout is zero.
pub(super) fn deadline<B>(
    request: &Request<B>,
) -> Result<Option<Instant>, Box<Response<ResponseBody>>> {
    let headers = request.headers();
    let content_type = content_type(headers);
    if !matches!(content_type.get(GRPC.len()), None | Some(b'+' | b';')) {
        let content_type = String::from_utf8_lossy(content_type);
        let text = format!("invalid gRPC request content-type {content_type:?}");
        let status = Status::invalid_argument(text);
        return Err(rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, &status));
    }
    let timeout = headers.get("grpc-timeout").map(|value| {
        timeout(&String::from_utf8_lossy(value.as_bytes())).map_err(|reason| {
            let status = Status::internal(format!("malformed grpc-timeout: {reason}"));
            rejection(StatusCode::BAD_REQUEST, &status)
        })
    });
    let timeout = timeout.transpose()?;
    if request.method() != Method::POST {
        let method = request.method().as_str();
        let text = format!("Received a HEADERS frame with :method {method:?} which should be POST");
        let status = Status::internal(text);
        return Err(rejection(StatusCode::METHOD_NOT_ALLOWED, &status));
    }
    match timeout {
        Some(Duration::ZERO) => Err(rejection(StatusCode::OK, &deadline_exceeded())),
        timeout => Ok(timeout.map(|timeout| Instant::now() + timeout)),
    }
}

fn rejection(code: StatusCode, status: &Status) -> Box<Response<ResponseBody>> {
    let mut response = error_response(status);
    *response.status_mut() = code;
    Box::new(response)
}

pub(super) fn deadline_exceeded() -> Status {
    Status::deadline_exceeded("context deadline exceeded")
}

/// Parses a `grpc-timeout`: at most eight digits and a unit. Errors have grpc-go's texts.
fn timeout(text: &str) -> Result<Duration, String> {
    let Some((at, unit)) = text.char_indices().next_back().filter(|(at, _)| *at > 0) else {
        return Err(format!("transport: timeout string is too short: {text:?}"));
    };
    if text.len() > 9 {
        return Err(format!("transport: timeout string is too long: {text:?}"));
    }
    let unit = match unit {
        'H' => Duration::from_secs(60 * 60),
        'M' => Duration::from_secs(60),
        'S' => Duration::from_secs(1),
        'm' => Duration::from_millis(1),
        'u' => Duration::from_micros(1),
        'n' => Duration::from_nanos(1),
        _ => {
            let reason = "timeout unit is not recognized";
            return Err(format!("transport: {reason}: {text:?}"));
        }
    };
    let digits = &text[..at];
    match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // Eight digits always fit into `u32`.
        true => Ok(unit * digits.parse().unwrap_or(u32::MAX)),
        false => Err(format!(
            "strconv.ParseUint: parsing {digits:?}: invalid syntax"
        )),
    }
}

/// Returns the response of `call`, or drops the call at the deadline and returns
/// `DeadlineExceeded`.
pub(super) async fn within(
    deadline: Instant,
    call: impl Future<Output = Response<ResponseBody>>,
) -> Response<ResponseBody> {
    tokio::time::timeout_at(deadline, call)
        .await
        .unwrap_or_else(|_| error_response(&deadline_exceeded()))
}

/// A response body that ends with `DeadlineExceeded` at the deadline, even if data remains.
pub(super) struct UntilDeadline {
    body: tonic::body::Body,
    deadline: Pin<Box<Sleep>>,
    over: bool,
}

impl UntilDeadline {
    pub(super) fn new(body: tonic::body::Body, deadline: Instant) -> Self {
        Self {
            body,
            deadline: Box::pin(tokio::time::sleep_until(deadline)),
            over: false,
        }
    }
}

impl Body for UntilDeadline {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<HttpFrame<Bytes>, Status>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if self.deadline.as_mut().poll(context).is_pending() {
            let next = ready!(Pin::new(&mut self.body).poll_frame(context));
            return Poll::Ready(next);
        }
        self.over = true;
        let mut trailers = HeaderMap::new();
        deadline_exceeded().add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(HttpFrame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_up_to_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("0S", Duration::ZERO),
            ("99999999m", Duration::from_millis(99_999_999)),
            ("7u", Duration::from_micros(7)),
            ("5n", Duration::from_nanos(5)),
        ] {
            assert_eq!(timeout(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "S",
            "1",
            "1s",
            "-1S",
            "+1S",
            "1.5S",
            "1 S",
            "123456789S",
            "ö",
        ] {
            assert!(timeout(text).is_err(), "{text}");
        }
    }
}
