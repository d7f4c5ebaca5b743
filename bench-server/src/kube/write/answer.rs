//! A write as HTTP: what method and URL ask for, and what is answered.

use http::{HeaderValue, Method, StatusCode};
use kube_api::custom::custom_from_json;
use kube_api::{ListOptions, Status, envelope, item_object, list_item};

use super::body::Sent;
use super::change::{Outcome, Writer, Written};
use super::delete::Deleted;
use super::draft::Part;
use super::event_lease::EventLease;
use super::options::{DeleteOptions, WriteOptions};
use super::patch::Patch;
use crate::kube::body::{KubeBody, ListBody};
use crate::kube::form::{Form, Include};
use crate::kube::list::Lister;
use crate::kube::media::{Encoding, Media, PLAIN};
use crate::kube::resource::Resource;

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

/// What a write answers with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) body: KubeBody,
    /// Values of `Warning` headers.
    pub(crate) warnings: Vec<HeaderValue>,
}

/// Whether a DELETE asks, in its query or its body, to do everything but the write.
///
/// # Errors
/// Those of options that cannot be read.
pub(crate) fn is_dry_run(query: &str, sent: &Sent) -> Result<bool, Status> {
    let body = DeleteOptions::parse(&sent.media_type, &sent.bytes)?;
    Ok(WriteOptions::parse(&Method::DELETE, query)?.dry_run || body.dry_run())
}

impl Lister {
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
        encoding: Encoding,
    ) -> Result<Answer, Status> {
        let mut writer = self.writer(place.namespace, events, WriteOptions::parse(method, query)?);
        let part = match place.subresource {
            None => Part::Main,
            Some("status") if self.resource.has_status() => Part::Status,
            Some(_) => return Err(Status::method_not_allowed()),
        };
        // A collection is written to in one namespace.
        let in_place = self.resource.namespaced != place.namespace.is_empty();
        let written = match (method, place.name) {
            (&Method::POST, None) if in_place => writer.create(sent).await?,
            (&Method::PUT, Some(name)) => writer.replace(name, part, sent).await?,
            (&Method::PATCH, Some(name)) => {
                let patch = Patch::parse(&sent.media_type, self.resource.schema(), &sent.bytes)?;
                writer.patch(name, part, &patch).await?
            }
            (&Method::DELETE, Some(name)) if part == Part::Main => {
                let options = DeleteOptions::parse(&sent.media_type, &sent.bytes)?;
                writer.options.dry_run |= options.dry_run();
                match writer.delete(name, &options.preconditions).await? {
                    Deleted::Shown(written) => written,
                    Deleted::Gone(uid) => {
                        let status = Status::deleted(self.resource.about(name), &uid);
                        return Ok(Answer::ok(KubeBody::full(encoding.status(&status))));
                    }
                }
            }
            (&Method::DELETE, None) if in_place && self.resource.deletes_collections() => {
                let options = DeleteOptions::parse(&sent.media_type, &sent.bytes)?;
                writer.options.dry_run |= options.dry_run();
                return self
                    .delete_collection(&writer, query, &options, encoding)
                    .await;
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let code = match written.outcome {
            Outcome::Created => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        let warning = |text: &String| HeaderValue::from_str(&format!("299 - {text:?}")).ok();
        Ok(Answer {
            code,
            warnings: written.warnings.iter().filter_map(warning).collect(),
            body: KubeBody::full(render(self.resource, &written, encoding)?),
        })
    }

    /// Deletes what a list with these options selects; the list is the answer.
    async fn delete_collection(
        &self,
        writer: &Writer<'_>,
        query: &str,
        options: &DeleteOptions,
        encoding: Encoding,
    ) -> Result<Answer, Status> {
        let listing = self
            .list(writer.namespace, &ListOptions::parse(query)?)
            .await?;
        let objects = listing.items.clone().take(listing.count as usize);
        let names = objects.map(|object| {
            let key = String::from_utf8_lossy(object.key()).into_owned();
            key.rsplit('/').next().unwrap_or_default().to_owned()
        });
        writer.delete_all(names, &options.preconditions).await?;
        let media = Media { encoding, ..PLAIN };
        let form = Form::new(media, Include::default());
        let body = ListBody::new(self.resource, form, listing);
        Ok(Answer::ok(KubeBody::List(Box::new(body))))
    }

    /// Deletes all objects of a namespace, as the namespace's own deletion demands.
    ///
    /// # Errors
    /// Storage's.
    pub(crate) async fn empty(&self, namespace: &str, events: &EventLease) -> Result<(), Status> {
        let writer = self.writer(namespace, events, WriteOptions::default());
        let query = "resourceVersion=";
        self.delete_collection(
            &writer,
            query,
            &DeleteOptions::default(),
            Encoding::Protobuf,
        )
        .await
        .map(drop)
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

impl Answer {
    fn ok(body: KubeBody) -> Self {
        Self {
            code: StatusCode::OK,
            body,
            warnings: Vec::new(),
        }
    }
}

/// The object as the client gets it back.
fn render(resource: &Resource, written: &Written, encoding: Encoding) -> Result<Vec<u8>, Status> {
    let failed = |error: &dyn std::fmt::Display| Status::internal(error.to_string());
    // What was not created has no version.
    let version = match written.revision {
        0 => String::new(),
        revision => revision.to_string(),
    };
    let custom;
    let raw = match resource.schema() {
        Some(_) => envelope::open(&written.value).map_err(|error| failed(&error))?,
        None => {
            custom = custom_from_json(&written.value).map_err(|error| failed(&error))?;
            &custom
        }
    };
    let item = list_item(raw, &version).map_err(|error| failed(&error))?;
    let object = item_object(&item);
    Ok(match encoding {
        Encoding::Protobuf => envelope::seal(resource.api_version, resource.kind, object),
        Encoding::Json => {
            let mut out = Vec::with_capacity(2 * object.len());
            resource
                .put_json(object, &resource.json_head(), &mut out)
                .map_err(|error| failed(&error))?;
            out.push(b'\n');
            out
        }
    })
}
