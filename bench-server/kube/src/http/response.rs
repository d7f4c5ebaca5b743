//! Builds all responses: status code, headers and body.

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER, VARY, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use kube_api::Status;

use super::body::ResponseBody;
use super::content_encoding::{ContentEncoding, EncodedList};
use crate::list::body::ListBody;
use crate::list::page::ObjectList;
use crate::resource::discovery::Document;
use crate::resource::media_type::Encoding;
use crate::resource::object::Object;
use crate::resource::representation::Representation;
use crate::resource_handler::ResourceHandler;
use crate::watch::body::WatchBody;
use crate::write::handler::WriteResponse;

const TEXT: &str = "text/plain; charset=utf-8";

/// Returns a response with the headers that all responses have.
fn response(
    code: StatusCode,
    content_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Returns a response of plain text.
pub(crate) fn text(code: StatusCode, body: impl Into<bytes::Bytes>) -> Response<ResponseBody> {
    response(code, TEXT, ResponseBody::full(body))
}

/// Returns a response whose body is complete in memory.
pub(crate) fn complete(content_type: &'static str, body: String) -> Response<ResponseBody> {
    response(StatusCode::OK, content_type, ResponseBody::full(body))
}

/// Adds the header that forbids browsers to guess another media type.
pub(crate) fn nosniff(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the response for a path at which nothing is served.
pub(crate) fn not_found() -> Response<ResponseBody> {
    nosniff(text(StatusCode::NOT_FOUND, "404 page not found\n"))
}

/// Returns the response with a discovery document, without a body if the client has it already by
/// the request's `If-None-Match`.
pub(crate) fn discovery_document(
    document: Document,
    request: &HeaderMap,
) -> Response<ResponseBody> {
    let body = ResponseBody::full(document.body);
    let mut response = response(StatusCode::OK, document.media_type, body);
    let Some(etag) = document.etag else {
        return response;
    };
    if request.get(IF_NONE_MATCH).is_some_and(|held| held == etag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = ResponseBody::full("");
        response.headers_mut().remove(CONTENT_TYPE);
    }
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(ETAG, HeaderValue::from_static(etag));
    response
}

/// Returns an error response, with `Retry-After` if the Status says when to retry. `pretty` indents
/// JSON.
pub(crate) fn error(status: &Status, encoding: Encoding, pretty: bool) -> Response<ResponseBody> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_encoding = ContentEncoding {
        pretty: pretty && encoding == Encoding::Json,
        gzip: false,
    };
    let (body, _) = content_encoding.encode(encoding.status(status));
    let mut response = response(code, encoding.media_type(), ResponseBody::full(body));
    if status.retry_after_seconds() > 0 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(status.retry_after_seconds()));
    }
    response
}

/// Returns the response with a watch.
pub(crate) fn watch(body: WatchBody) -> Response<ResponseBody> {
    let (compressed, media_type) = (body.is_compressed(), body.media_type());
    let response = response(
        StatusCode::OK,
        media_type,
        ResponseBody::Watch(Box::new(body)),
    );
    with_content_encoding(response, compressed)
}

/// Builds the response to one request for a resource.
#[derive(Debug)]
pub(crate) struct Responder<'r> {
    /// The handler of the resource.
    pub(crate) handler: &'r ResourceHandler,
    /// The representation of objects.
    pub(crate) representation: Representation,
    /// The content encoding of the body.
    pub(crate) content_encoding: ContentEncoding,
}

impl Responder<'_> {
    /// Returns the response with a list.
    pub(crate) async fn list(&self, list: ObjectList) -> Response<ResponseBody> {
        let undecodable = self.handler.metrics.undecodable(self.handler.resource);
        let body = ListBody::new(
            self.handler.resource,
            self.representation,
            list,
            undecodable,
        )
        .await;
        let (body, compressed) = match self.content_encoding == ContentEncoding::default() {
            true => (ResponseBody::list(body), false),
            false => {
                let body = EncodedList::new(body, self.content_encoding);
                let compressed = body.is_compressed();
                (ResponseBody::Encoded(Box::new(body)), compressed)
            }
        };
        let media_type = self.representation.encoding.media_type();
        with_content_encoding(response(StatusCode::OK, media_type, body), compressed)
    }

    /// Returns the response with one object.
    ///
    /// # Errors
    /// 500 for an object that cannot be converted to the representation.
    pub(crate) fn object(
        &self,
        code: StatusCode,
        object: &Object,
    ) -> Result<Response<ResponseBody>, Status> {
        let mut out = Vec::new();
        self.representation
            .put_object(self.handler.resource, object, true, &mut out)
            .map_err(|error| Status::internal(error.to_string()))?;
        if self.representation.encoding == Encoding::Json {
            out.push(b'\n');
        }
        Ok(self.complete(code, out))
    }

    /// Returns the response to a write.
    ///
    /// # Errors
    /// 500 for an object that cannot be converted to the representation.
    pub(crate) async fn written(
        &self,
        response: WriteResponse,
    ) -> Result<Response<ResponseBody>, Status> {
        match response {
            WriteResponse::Object {
                code,
                object,
                warnings,
            } => {
                let mut response = self.object(code, &object)?;
                for warning in warnings {
                    response.headers_mut().append(WARNING, warning);
                }
                Ok(response)
            }
            WriteResponse::List(list) => Ok(self.list(list).await),
            // A Status is always sent as a Status, never as a table.
            WriteResponse::Gone(status) => {
                let body = self.representation.encoding.status(&status);
                Ok(self.complete(StatusCode::OK, body))
            }
        }
    }

    fn complete(&self, code: StatusCode, body: Vec<u8>) -> Response<ResponseBody> {
        let (body, compressed) = self.content_encoding.encode(body);
        let media_type = self.representation.encoding.media_type();
        with_content_encoding(
            response(code, media_type, ResponseBody::full(body)),
            compressed,
        )
    }
}

/// Adds the headers of a compressed body.
fn with_content_encoding(
    mut response: Response<ResponseBody>,
    compressed: bool,
) -> Response<ResponseBody> {
    if compressed {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}
