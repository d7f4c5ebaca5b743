//! Responses: codes, headers and bodies of what handlers answer.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use kube_api::Status;

use super::body::KubeBody;
use super::content_encoding::Dress;
use crate::resource::discovery::Document;
use crate::resource::media_type::Encoding;

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

/// A text that no browser is to take for something else.
pub(crate) fn unsniffed(mut response: Response<KubeBody>) -> Response<KubeBody> {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// What is told where there is nothing at all.
pub(crate) fn nothing() -> Response<KubeBody> {
    unsniffed(text(StatusCode::NOT_FOUND, "404 page not found\n"))
}

/// A document of discovery.
pub(crate) fn described(document: Document) -> Response<KubeBody> {
    let body = KubeBody::full(document.body);
    let mut response = respond(StatusCode::OK, document.media_type, body);
    if document.is_negotiated() {
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        headers.insert(VARY, HeaderValue::from_static("Accept"));
    }
    response
}

/// An error, with the header that says when to come back; indented for people where it is JSON.
pub(crate) fn failure(status: &Status, encoding: Encoding, pretty: bool) -> Response<KubeBody> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let dress = Dress {
        pretty: pretty && encoding == Encoding::Json,
        gzip: false,
    };
    let (body, _) = dress.whole(encoding.status(status));
    let mut response = respond(code, encoding.media_type(), KubeBody::full(body));
    if status.retry_after_seconds() > 0 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(status.retry_after_seconds()));
    }
    response
}
