//! A request for a resource that is served, and its answer in the form and dress that it asks for.

use http::request::Parts;
use http::{Response, StatusCode};
use kube_api::{ListOptions, Status};

use super::body::KubeBody;
use super::content_encoding::Dress;
use super::response::{Responder, watch};
use super::route::Route;
use crate::resource::filter::{Filter, NAME};
use crate::resource::media_type::{Media, Shape};
use crate::resource::representation::{Form, Include};
use crate::resource_handler::ResourceHandler;

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

    /// Returns what writes the response.
    ///
    /// # Errors
    /// 400 for an `includeObject` that is none of the three.
    pub(crate) fn responder(&self) -> Result<Responder<'_>, Status> {
        Ok(Responder {
            lister: self.lister,
            form: self.form()?,
            dress: self.dress,
        })
    }

    fn form(&self) -> Result<Form, Status> {
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
    /// As [`ResourceHandler::list`] and [`Self::responder`].
    pub(crate) async fn list(&self, options: &ListOptions) -> Result<Response<KubeBody>, Status> {
        let responder = self.responder()?;
        let listing = self.lister.list(self.route.namespace, options).await?;
        Ok(responder.list(listing).await)
    }

    /// Answers a GET.
    ///
    /// # Errors
    /// As [`ResourceHandler::get`] and [`Self::responder`].
    pub(crate) async fn get(
        &self,
        name: &str,
        options: &ListOptions,
    ) -> Result<Response<KubeBody>, Status> {
        let object = self.lister.get(self.route.namespace, name, options).await?;
        self.responder()?.object(StatusCode::OK, &object)
    }

    /// Answers a WATCH.
    ///
    /// # Errors
    /// As [`ResourceHandler::watch`] and [`Self::responder`]; 400 where the old form names one object and a
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
        Ok(watch(body))
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
