//! Handles writes: dispatches them by method and path, and builds the content of the response.

use http::{HeaderValue, Method, StatusCode};
use kube_api::{ListOptions, Status};

use super::body::RequestBody;
use super::delete::DeleteOutcome;
use super::delete_options::DeleteOptions;
use super::guaranteed_update::{Outcome, Writer, WrittenObject};
use super::options::WriteOptions;
use super::patch::Patch;
use super::prepare::WriteTarget;
use super::ttl_lease::EventLease;
use crate::list::page::ObjectList;
use crate::resource::object::Object;
use crate::resource_handler::ResourceHandler;

/// The object or collection that the path of a write names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectPath<'a> {
    /// The namespace; empty for cluster-scoped kinds and for all namespaces.
    pub(crate) namespace: &'a str,
    /// The name of the object; `None` for a collection.
    pub(crate) name: Option<&'a str>,
    /// The subresource; `None` for the object itself.
    pub(crate) subresource: Option<&'a str>,
}

/// The content of the response to a write.
#[derive(Debug)]
pub(crate) enum WriteResponse {
    /// The object in its new or last state.
    Object {
        code: StatusCode,
        object: Object,
        /// The values of `Warning` headers.
        warnings: Vec<HeaderValue>,
    },
    /// The deleted objects of a collection.
    List(ObjectList),
    /// A Status that says that the object has been removed.
    Gone(Status),
}

impl ResourceHandler {
    /// Handles POST, PUT, PATCH and DELETE.
    ///
    /// # Errors
    /// The Status to be sent.
    pub(crate) async fn write(
        &self,
        event_lease: &EventLease,
        path: ObjectPath<'_>,
        method: &Method,
        query: &str,
        request_body: &RequestBody,
    ) -> Result<WriteResponse, Status> {
        let target = match path.subresource {
            None => WriteTarget::Main,
            Some("status") if self.resource.has_status() => WriteTarget::Status,
            Some("finalize") if *method == Method::PUT => WriteTarget::Finalize,
            Some(_) => return Err(Status::method_not_allowed()),
        };
        // Whether the path names one namespace, as it must for writes to a collection of a
        // namespaced kind, or none, as it must for cluster-scoped kinds.
        let in_place = self.resource.namespaced != path.namespace.is_empty();
        let writer = |options| self.writer(path.namespace, event_lease, options);
        let options = || WriteOptions::parse(method, query);
        let written = match (method, path.name) {
            (&Method::POST, None) if in_place => {
                request_body.check_media_type(self.resource)?;
                writer(options()?).create(request_body).await?
            }
            (&Method::PUT, Some(name)) => {
                writer(options()?)
                    .replace(name, target, request_body)
                    .await?
            }
            (&Method::PATCH, Some(name)) => {
                let RequestBody {
                    media_type, bytes, ..
                } = request_body;
                Patch::check_media_type(media_type, self.resource)?;
                let writer = writer(options()?);
                Patch::check_json(bytes)?;
                writer.patch(name, target, request_body).await?
            }
            (&Method::DELETE, Some(name)) if target == WriteTarget::Main => {
                let options = DeleteOptions::read(query, request_body)?;
                let writer = writer(WriteOptions::of_deletion(options.dry_run()));
                match writer.delete(name, &options.preconditions()).await? {
                    DeleteOutcome::Removed(uid) => {
                        return Ok(WriteResponse::Gone(Status::deleted(
                            self.resource.about(name),
                            &uid,
                        )));
                    }
                    DeleteOutcome::Object(written) => {
                        let waits = written.outcome == Outcome::Updated && options.cascades();
                        let code = if waits {
                            StatusCode::ACCEPTED
                        } else {
                            StatusCode::OK
                        };
                        return self.object_response(code, written);
                    }
                }
            }
            (&Method::DELETE, None) if in_place && self.resource.deletes_collections() => {
                return self
                    .delete_collection(event_lease, path.namespace, query, request_body)
                    .await
                    .map(WriteResponse::List);
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let code = match written.outcome {
            Outcome::Created => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        self.object_response(code, written)
    }

    /// Performs a dry run of a deletion: everything except the write.
    ///
    /// # Errors
    /// Those of the deletion.
    pub(super) async fn dry_run_delete(
        &self,
        event_lease: &EventLease,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let writer = self.writer("", event_lease, WriteOptions::of_deletion(true));
        writer
            .delete(name, &options.preconditions())
            .await
            .map(drop)
    }

    /// Deletes the objects that a list with these options selects, and returns the list.
    ///
    /// # Errors
    /// Those of the list and of each deletion.
    pub(super) async fn delete_collection(
        &self,
        event_lease: &EventLease,
        namespace: &str,
        query: &str,
        request_body: &RequestBody,
    ) -> Result<ObjectList, Status> {
        let selection = ListOptions::parse(query)?;
        let options = DeleteOptions::read(query, request_body)?;
        let writer = self.writer(
            namespace,
            event_lease,
            WriteOptions::of_deletion(options.dry_run()),
        );
        let list = self.list(namespace, &selection).await?;
        let objects = list.items.clone().take(list.count as usize);
        let names = objects.map(|object| {
            let key = String::from_utf8_lossy(object.key()).into_owned();
            key.rsplit('/').next().unwrap_or_default().to_owned()
        });
        writer.delete_all(names, &options.preconditions()).await?;
        Ok(list)
    }

    fn object_response(
        &self,
        code: StatusCode,
        written: WrittenObject,
    ) -> Result<WriteResponse, Status> {
        // The response does not need the key.
        let object = Object::decode(self.resource, b"", &written.value, written.revision)
            .map_err(|error| Status::internal(error.to_string()))?;
        let warning = |text: &String| HeaderValue::from_str(&format!("299 - {text:?}")).ok();
        Ok(WriteResponse::Object {
            code,
            object,
            warnings: written.warnings.iter().filter_map(warning).collect(),
        })
    }

    fn writer<'a>(
        &'a self,
        namespace: &'a str,
        event_lease: &'a EventLease,
        options: WriteOptions,
    ) -> Writer<'a> {
        Writer {
            resource: self.resource,
            prefix: &self.prefix,
            namespace,
            backend: &*self.backend,
            metrics: &self.metrics,
            event_lease,
            options,
        }
    }
}
