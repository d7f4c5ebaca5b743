//! Handles requests for a resource: parses their options and calls the resource's handler.

use http::request::Parts;
use http::{Response, StatusCode};
use kube_api::{ListOptions, Status};
use memory::in_flight;

use super::body::ResponseBody;
use super::content_encoding::ContentEncoding;
use super::response::{Responder, watch};
use super::route::Route;
use crate::resource::filter::{Filter, NAME};
use crate::resource::media_type::{MediaType, ResponseKind};
use crate::resource::representation::{IncludeObject, Representation};
use crate::resource_handler::ResourceHandler;

/// A request for a resource.
#[derive(Debug)]
pub(crate) struct ResourceRequest<'r> {
    /// The handler of the resource.
    pub(crate) handler: &'r ResourceHandler,
    /// The parsed path.
    pub(crate) route: Route<'r>,
    /// The method, URL and headers.
    pub(crate) head: &'r Parts,
    /// The media type of the response.
    pub(crate) media_type: MediaType,
    /// The content encoding of the response.
    pub(crate) content_encoding: ContentEncoding,
}

impl ResourceRequest<'_> {
    /// Returns the query of the URL.
    pub(crate) fn query(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }

    /// Returns the responder that encodes the result.
    ///
    /// # Errors
    /// 400 for an unknown `includeObject`.
    pub(crate) fn responder(&self) -> Result<Responder<'_>, Status> {
        Ok(Responder {
            handler: self.handler,
            representation: self.representation()?,
            content_encoding: self.content_encoding,
        })
    }

    fn representation(&self) -> Result<Representation, Status> {
        let mut pairs = form_urlencoded::parse(self.query().as_bytes());
        let include = match pairs.find(|(name, _)| name == "includeObject") {
            None => IncludeObject::default(),
            Some((_, value)) => match &*value {
                "" | "Metadata" => IncludeObject::Metadata,
                "None" => IncludeObject::None,
                "Object" => IncludeObject::Object,
                _ if self.media_type.kind != ResponseKind::Table => IncludeObject::default(),
                other => {
                    return Err(Status::bad_request(format!(
                        "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                         must be 'Metadata', 'Object', 'None', or empty"
                    )));
                }
            },
        };
        Ok(Representation::new(self.media_type, include))
    }

    /// Handles a LIST.
    ///
    /// # Errors
    /// Those of [`ResourceHandler::list`] and [`Self::responder`].
    pub(crate) async fn list(
        &self,
        options: &ListOptions,
    ) -> Result<Response<ResponseBody>, Status> {
        let responder = self.responder()?;
        let list = self.handler.list(self.route.namespace, options).await?;
        Ok(responder.list(list).await)
    }

    /// Handles a GET.
    ///
    /// # Errors
    /// Those of [`ResourceHandler::get`] and [`Self::responder`]; 400 for `export`.
    pub(crate) async fn get(
        &self,
        name: &str,
        options: &ListOptions,
    ) -> Result<Response<ResponseBody>, Status> {
        let mut parameters = form_urlencoded::parse(self.query().as_bytes());
        let export = parameters.find(|(parameter, _)| parameter == "export");
        let is_false = |value: &str| value == "0" || value.eq_ignore_ascii_case("false");
        if export.is_some_and(|(_, value)| !is_false(&value)) {
            return Err(Status::bad_request(
                "the export parameter, deprecated since v1.14, is no longer supported",
            ));
        }
        let object = self
            .handler
            .get(self.route.namespace, name, options)
            .await?;
        in_flight::room_for(object.item().len()).await;
        self.responder()?.object(StatusCode::OK, &object)
    }

    /// Handles a WATCH.
    ///
    /// # Errors
    /// Those of [`ResourceHandler::watch`] and [`Self::responder`]; 400 if a path below `/watch/`
    /// names one object and the field selector another.
    pub(crate) async fn watch(
        &self,
        mut options: ListOptions,
    ) -> Result<Response<ResponseBody>, Status> {
        if let Some(name) = self.route.name {
            check_name_selector(self.handler, &options, name)?;
            let comma = match &*options.field_selector {
                "" => "",
                _ => ",",
            };
            options.field_selector += &format!("{comma}metadata.name={name}");
        }
        let body = self
            .handler
            .watch(
                self.route.namespace,
                &options,
                self.representation()?,
                self.content_encoding.gzip,
            )
            .await?;
        Ok(watch(body))
    }
}

/// Returns an error if there is a field selector, and it does not require the name in the path.
fn check_name_selector(
    handler: &ResourceHandler,
    options: &ListOptions,
    name: &str,
) -> Result<(), Status> {
    let filter = Filter::parse(handler.resource, options, handler.gates)?;
    match filter.demands_field(NAME) {
        Some(demanded) if demanded == name => Ok(()),
        None if options.field_selector.is_empty() => Ok(()),
        _ => Err(Status::bad_request(
            "fieldSelector metadata.name doesn't match requested name",
        )),
    }
}
