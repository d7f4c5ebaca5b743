//! A write as HTTP: what method and URL ask for, and what is answered.

use http::{HeaderValue, Method, StatusCode};
use kube_api::{ListOptions, Status};

use super::body::Sent;
use super::delete::Deleted;
use super::delete_options::DeleteOptions;
use super::guaranteed_update::{Outcome, Writer, Written};
use super::options::WriteOptions;
use super::patch::Patch;
use super::prepare::Part;
use super::ttl_lease::EventLease;
use crate::list::page::Listing;
use crate::resource::object::Object;
use crate::resource_handler::ResourceHandler;

/// What a write is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Empty for cluster-scoped kinds, and for all namespaces.
    pub(crate) namespace: &'a str,
    /// `None` for a collection.
    pub(crate) name: Option<&'a str>,
    /// `None` for the object itself.
    pub(crate) subresource: Option<&'a str>,
}

/// What a write answers with, to be shown in the form that was asked for.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The object as it is now, or was last.
    Object {
        code: StatusCode,
        object: Object,
        /// Values of `Warning` headers.
        warnings: Vec<HeaderValue>,
    },
    /// The objects of a collection, which are deleted.
    List(Listing),
    /// The object is gone.
    Gone(Status),
}

impl ResourceHandler {
    /// Answers POST, PUT, PATCH and DELETE.
    ///
    /// # Errors
    /// The Status to be sent.
    pub(crate) async fn write(
        &self,
        events: &EventLease,
        place: Place<'_>,
        method: &Method,
        query: &str,
        sent: &Sent,
    ) -> Result<Answer, Status> {
        let part = match place.subresource {
            None => Part::Main,
            Some("status") if self.resource.has_status() => Part::Status,
            Some("finalize") if *method == Method::PUT => Part::Finalize,
            Some(_) => return Err(Status::method_not_allowed()),
        };
        // A collection is written to in one namespace.
        let in_place = self.resource.namespaced != place.namespace.is_empty();
        let writer = |options| self.writer(place.namespace, events, options);
        let options = || WriteOptions::parse(method, query);
        let written = match (method, place.name) {
            (&Method::POST, None) if in_place => writer(options()?).create(sent).await?,
            (&Method::PUT, Some(name)) => writer(options()?).replace(name, part, sent).await?,
            (&Method::PATCH, Some(name)) => {
                let writer = writer(options()?);
                let patch = Patch::parse(&sent.media_type, self.resource, &sent.bytes)?;
                writer.patch(name, part, &patch).await?
            }
            (&Method::DELETE, Some(name)) if part == Part::Main => {
                let options = DeleteOptions::read(query, sent)?;
                let writer = writer(WriteOptions::of_deletion(options.dry_run()));
                match writer.delete(name, &options.preconditions()).await? {
                    Deleted::Gone(uid) => {
                        return Ok(Answer::Gone(Status::deleted(
                            self.resource.about(name),
                            &uid,
                        )));
                    }
                    Deleted::Shown(written) => {
                        let waits = written.outcome == Outcome::Updated && options.cascades();
                        let code = if waits {
                            StatusCode::ACCEPTED
                        } else {
                            StatusCode::OK
                        };
                        return self.shown(code, written);
                    }
                }
            }
            (&Method::DELETE, None) if in_place && self.resource.deletes_collections() => {
                return self
                    .delete_collection(events, place.namespace, query, sent)
                    .await
                    .map(Answer::List);
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let code = match written.outcome {
            Outcome::Created => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        self.shown(code, written)
    }

    /// Does everything that a deletion does but the deletion.
    ///
    /// # Errors
    /// Those of the deletion.
    pub(crate) async fn rehearse_deletion(
        &self,
        events: &EventLease,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let writer = self.writer("", events, WriteOptions::of_deletion(true));
        writer
            .delete(name, &options.preconditions())
            .await
            .map(drop)
    }

    /// Deletes what a list with these options selects; the list is the answer.
    async fn delete_collection(
        &self,
        events: &EventLease,
        namespace: &str,
        query: &str,
        sent: &Sent,
    ) -> Result<Listing, Status> {
        let selection = ListOptions::parse(query)?;
        let options = DeleteOptions::read(query, sent)?;
        let writer = self.writer(
            namespace,
            events,
            WriteOptions::of_deletion(options.dry_run()),
        );
        let listing = self.list(namespace, &selection).await?;
        let objects = listing.items.clone().take(listing.count as usize);
        let names = objects.map(|object| {
            let key = String::from_utf8_lossy(object.key()).into_owned();
            key.rsplit('/').next().unwrap_or_default().to_owned()
        });
        writer.delete_all(names, &options.preconditions()).await?;
        Ok(listing)
    }

    /// Deletes all objects of a namespace, as the namespace's own deletion demands.
    ///
    /// # Errors
    /// Storage's.
    pub(crate) async fn empty(&self, namespace: &str, events: &EventLease) -> Result<(), Status> {
        self.delete_collection(events, namespace, "", &Sent::default())
            .await
            .map(drop)
    }

    fn shown(&self, code: StatusCode, written: Written) -> Result<Answer, Status> {
        // Its key is asked of nobody.
        let object = Object::decode(self.resource, b"", &written.value, written.revision)
            .map_err(|error| Status::internal(error.to_string()))?;
        let warning = |text: &String| HeaderValue::from_str(&format!("299 - {text:?}")).ok();
        Ok(Answer::Object {
            code,
            object,
            warnings: written.warnings.iter().filter_map(warning).collect(),
        })
    }

    fn writer<'a>(
        &'a self,
        namespace: &'a str,
        events: &'a EventLease,
        options: WriteOptions,
    ) -> Writer<'a> {
        Writer {
            resource: self.resource,
            prefix: &self.prefix,
            namespace,
            backend: &*self.backend,
            figures: &self.figures,
            events,
            options,
        }
    }
}
