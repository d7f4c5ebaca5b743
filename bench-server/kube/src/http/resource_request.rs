//! A request for a resource that is served, and its answer in the form and dress that it asks for.

use http::header::{CONTENT_ENCODING, VARY, WARNING};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use kube_api::{ListOptions, Status};

use super::body::KubeBody;
use super::content_encoding::{Dress, DressedList};
use super::response::respond;
use super::route::Route;
use crate::list::body::ListBody;
use crate::list::page::Listing;
use crate::resource::filter::{Filter, NAME};
use crate::resource::media_type::{Encoding, Media, Shape};
use crate::resource::object::Object;
use crate::resource::representation::{Form, Include};
use crate::resource_handler::ResourceHandler;
use crate::write::handler::Answer;

/// What a request for a resource is made of.
#[derive(Debug)]
pub(crate) struct Call<'r> {
    /// What serves the resource.
    pub(crate) lister: &'r ResourceHandler,
    /// What the URL names.
    pub(crate) route: Route<'r>,
    /// Method, URL and headers.
    pub(crate) head: &'r Parts,
    /// How the answer is encoded.
    pub(crate) media: Media,
    /// What is done to it then.
    pub(crate) dress: Dress,
}

impl Call<'_> {
    /// What stands behind `?`.
    pub(crate) fn query(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }

    /// The form of the answer's objects.
    ///
    /// # Errors
    /// 400 for an `includeObject` that is none of the three.
    pub(crate) fn form(&self) -> Result<Form, Status> {
        let mut pairs = form_urlencoded::parse(self.query().as_bytes());
        let include = match pairs.find(|(name, _)| name == "includeObject") {
            None => Include::default(),
            Some((_, value)) => match &*value {
                "" | "Metadata" => Include::Metadata,
                "None" => Include::None,
                "Object" => Include::Object,
                _ if self.media.shape != Shape::Table => Include::default(),
                other => {
                    return Err(Status::bad_request(format!(
                        "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                         must be 'Metadata', 'Object', 'None', or empty"
                    )));
                }
            },
        };
        Ok(Form::new(self.media, include))
    }

    /// Answers a LIST.
    ///
    /// # Errors
    /// As [`ResourceHandler::list`] and [`Self::form`].
    pub(crate) async fn list(&self, options: &ListOptions) -> Result<Response<KubeBody>, Status> {
        let form = self.form()?;
        let listing = self.lister.list(self.route.namespace, options).await?;
        Ok(self.listed(form, listing).await)
    }

    /// Answers a GET.
    ///
    /// # Errors
    /// As [`ResourceHandler::get`] and [`Self::form`].
    pub(crate) async fn get(
        &self,
        name: &str,
        options: &ListOptions,
    ) -> Result<Response<KubeBody>, Status> {
        let object = self.lister.get(self.route.namespace, name, options).await?;
        self.shown(self.form()?, StatusCode::OK, &object)
    }

    /// Answers a WATCH.
    ///
    /// # Errors
    /// As [`ResourceHandler::watch`] and [`Self::form`]; 400 where the old form names one object and a
    /// selector another.
    pub(crate) async fn watch(
        &self,
        mut options: ListOptions,
    ) -> Result<Response<KubeBody>, Status> {
        if let Some(name) = self.route.name {
            names_no_other(self.lister, &options, name)?;
            let comma = match &*options.field_selector {
                "" => "",
                _ => ",",
            };
            options.field_selector += &format!("{comma}metadata.name={name}");
        }
        let body = self
            .lister
            .watch(
                self.route.namespace,
                &options,
                self.form()?,
                self.dress.gzip,
            )
            .await?;
        let (compressed, media_type) = (body.is_compressed(), body.media_type());
        let response = respond(StatusCode::OK, media_type, KubeBody::Watch(Box::new(body)));
        Ok(encoded(response, compressed))
    }

    /// Tells what a write has done.
    ///
    /// # Errors
    /// 500 for an object that cannot be shown.
    pub(crate) async fn written(
        &self,
        form: Form,
        answer: Answer,
    ) -> Result<Response<KubeBody>, Status> {
        match answer {
            Answer::Object {
                code,
                object,
                warnings,
            } => {
                let mut response = self.shown(form, code, &object)?;
                for warning in warnings {
                    response.headers_mut().append(WARNING, warning);
                }
                Ok(response)
            }
            Answer::List(listing) => Ok(self.listed(form, listing).await),
            // A Status has one shape, whatever was asked for.
            Answer::Gone(status) => Ok(self.whole(StatusCode::OK, form.encoding.status(&status))),
        }
    }

    async fn listed(&self, form: Form, listing: Listing) -> Response<KubeBody> {
        let undecodable = self.lister.figures.undecodable(self.lister.resource);
        let body = ListBody::new(self.lister.resource, form, listing, undecodable).await;
        let (body, compressed) = match self.dress == Dress::default() {
            true => (KubeBody::list(body), false),
            false => {
                let body = DressedList::new(body, self.dress);
                let compressed = body.is_compressed();
                (KubeBody::Dressed(Box::new(body)), compressed)
            }
        };
        let media_type = self.media.encoding.media_type();
        encoded(respond(StatusCode::OK, media_type, body), compressed)
    }

    fn shown(
        &self,
        form: Form,
        code: StatusCode,
        object: &Object,
    ) -> Result<Response<KubeBody>, Status> {
        let mut out = Vec::new();
        form.put_object(self.lister.resource, object, true, &mut out)
            .map_err(|error| Status::internal(error.to_string()))?;
        if self.media.encoding == Encoding::Json {
            out.push(b'\n');
        }
        Ok(self.whole(code, out))
    }

    fn whole(&self, code: StatusCode, body: Vec<u8>) -> Response<KubeBody> {
        let (body, compressed) = self.dress.whole(body);
        let media_type = self.media.encoding.media_type();
        encoded(respond(code, media_type, KubeBody::full(body)), compressed)
    }
}

/// Refuses a field selector that demands another object than the URL names.
fn names_no_other(
    lister: &ResourceHandler,
    options: &ListOptions,
    name: &str,
) -> Result<(), Status> {
    let filter = Filter::parse(lister.resource, options, lister.gates)?;
    match filter.demands_field(NAME) {
        Some(other) if other != name => Err(Status::bad_request(
            "fieldSelector metadata.name doesn't match requested name",
        )),
        _ => Ok(()),
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
