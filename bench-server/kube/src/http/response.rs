//! Responses: codes, headers and bodies of what handlers answer.

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use kube_api::Status;

use super::body::KubeBody;
use super::content_encoding::{Dress, DressedList};
use crate::list::body::ListBody;
use crate::list::page::Listing;
use crate::resource::discovery::Document;
use crate::resource::media_type::Encoding;
use crate::resource::object::Object;
use crate::resource::representation::Form;
use crate::resource_handler::ResourceHandler;
use crate::watch::body::WatchBody;
use crate::write::handler::Answer;

const TEXT: &str = "text/plain; charset=utf-8";

/// Any answer.
fn respond(code: StatusCode, content_type: &'static str, body: KubeBody) -> Response<KubeBody> {
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

/// A watch.
pub(crate) fn watch(body: WatchBody) -> Response<KubeBody> {
    let (compressed, media_type) = (body.is_compressed(), body.media_type());
    let response = respond(StatusCode::OK, media_type, KubeBody::Watch(Box::new(body)));
    encoded(response, compressed)
}

/// Writes the response to a request for a resource, as the request asks for it.
#[derive(Debug)]
pub(crate) struct Responder<'r> {
    /// What served the resource.
    pub(crate) lister: &'r ResourceHandler,
    /// How objects are shown.
    pub(crate) form: Form,
    /// What is done to the body then.
    pub(crate) dress: Dress,
}

impl Responder<'_> {
    /// A list.
    pub(crate) async fn list(&self, listing: Listing) -> Response<KubeBody> {
        let undecodable = self.lister.figures.undecodable(self.lister.resource);
        let body = ListBody::new(self.lister.resource, self.form, listing, undecodable).await;
        let (body, compressed) = match self.dress == Dress::default() {
            true => (KubeBody::list(body), false),
            false => {
                let body = DressedList::new(body, self.dress);
                let compressed = body.is_compressed();
                (KubeBody::Dressed(Box::new(body)), compressed)
            }
        };
        let media_type = self.form.encoding.media_type();
        encoded(respond(StatusCode::OK, media_type, body), compressed)
    }

    /// One object.
    ///
    /// # Errors
    /// 500 for an object that cannot be shown.
    pub(crate) fn object(
        &self,
        code: StatusCode,
        object: &Object,
    ) -> Result<Response<KubeBody>, Status> {
        let mut out = Vec::new();
        self.form
            .put_object(self.lister.resource, object, true, &mut out)
            .map_err(|error| Status::internal(error.to_string()))?;
        if self.form.encoding == Encoding::Json {
            out.push(b'\n');
        }
        Ok(self.whole(code, out))
    }

    /// What a write has done.
    ///
    /// # Errors
    /// 500 for an object that cannot be shown.
    pub(crate) async fn written(&self, answer: Answer) -> Result<Response<KubeBody>, Status> {
        match answer {
            Answer::Object {
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
            Answer::List(listing) => Ok(self.list(listing).await),
            // A Status has one shape, whatever was asked for.
            Answer::Gone(status) => {
                let body = self.form.encoding.status(&status);
                Ok(self.whole(StatusCode::OK, body))
            }
        }
    }

    fn whole(&self, code: StatusCode, body: Vec<u8>) -> Response<KubeBody> {
        let (body, compressed) = self.dress.whole(body);
        let media_type = self.form.encoding.media_type();
        encoded(respond(code, media_type, KubeBody::full(body)), compressed)
    }
}

/// Says so where the body is compressed.
fn encoded(mut response: Response<KubeBody>, compressed: bool) -> Response<KubeBody> {
    if compressed {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}
