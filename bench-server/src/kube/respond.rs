//! Responses: codes, headers and bodies of what handlers answer.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use kube_api::Status;

use super::body::KubeBody;
use super::media::Encoding;

const TEXT: &str = "text/plain; charset=utf-8";

/// Any answer.
pub(crate) fn respond(
    code: StatusCode,
    content_type: &'static str,
    body: KubeBody,
) -> Response<KubeBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A line of text.
pub(crate) fn text(code: StatusCode, body: impl Into<bytes::Bytes>) -> Response<KubeBody> {
    respond(code, TEXT, KubeBody::full(body))
}

/// A body that is there as a whole.
pub(crate) fn whole(content_type: &'static str, body: String) -> Response<KubeBody> {
    respond(StatusCode::OK, content_type, KubeBody::full(body))
}

/// An error, with the header that says when to come back.
pub(crate) fn failure(status: &Status, encoding: Encoding) -> Response<KubeBody> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = KubeBody::full(encoding.status(status));
    let mut response = respond(code, encoding.media_type(), body);
    if status.retry_after_seconds() > 0 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(status.retry_after_seconds()));
    }
    response
}
