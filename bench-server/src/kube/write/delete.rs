//! DELETE of one object, or of everything that a list selects.

use futures::stream::{self, StreamExt, TryStreamExt};
use kube_api::Status;
use serde_json::Value;

use super::change::{Next, Outcome, Writer, Written};
use super::draft::{expect_uid, now};
use super::options::Preconditions;
use super::stored::{Stored, encode};

/// Deletions of one collection that are under way at once.
const AT_ONCE: usize = 16;

/// How a DELETE ended.
#[derive(Debug, Clone)]
pub(crate) enum Deleted {
    /// The object is gone; its uid.
    Gone(String),
    /// Finalizers keep it; it is marked as being deleted.
    Kept(Written),
}

impl Writer<'_> {
    /// Deletes an object, or marks it when it has finalizers.
    ///
    /// # Errors
    /// 404 when there is none, 409 when a precondition does not hold; storage's.
    pub(crate) async fn delete(
        &self,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<Deleted, Status> {
        let current = self.current(name).await?;
        let mut uid = String::new();
        let written = self
            .change(name, current, |stored| {
                self.check(name, stored, preconditions)?;
                uid = stored.text("uid").to_owned();
                self.marked(stored)
            })
            .await?;
        Ok(match written.outcome {
            Outcome::Removed => Deleted::Gone(uid),
            _ => Deleted::Kept(written),
        })
    }

    /// Deletes every object of these names, several at once. What is gone already is no error.
    ///
    /// # Errors
    /// The first failure; what follows it is then left alone.
    pub(crate) async fn delete_all(
        &self,
        names: impl IntoIterator<Item = String>,
        preconditions: &Preconditions,
    ) -> Result<(), Status> {
        stream::iter(names)
            .map(Ok)
            .try_for_each_concurrent(AT_ONCE, |name| async move {
                match self.delete(&name, preconditions).await {
                    Err(status) if status.code != 404 => Err(status),
                    _ => Ok(()),
                }
            })
            .await
    }

    fn check(
        &self,
        name: &str,
        stored: &Stored,
        preconditions: &Preconditions,
    ) -> Result<(), Status> {
        let about = self.resource.about(name);
        if let Some(uid) = &preconditions.uid {
            expect_uid(about, uid, stored.text("uid"))?;
        }
        match &preconditions.resource_version {
            Some(version) if *version != stored.revision.to_string() => {
                let why = format!(
                    "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                    stored.revision
                );
                Err(Status::conflict(about, why))
            }
            _ => Ok(()),
        }
    }

    /// What a deletion makes of the object.
    fn marked(&self, stored: &Stored) -> Result<Next, Status> {
        let metadata = stored.metadata();
        let field = |name| metadata.and_then(|metadata| metadata.get(name));
        let held = field("finalizers").and_then(|list| list.as_array());
        if held.is_none_or(Vec::is_empty) {
            return Ok(Next::Delete(stored.unchanged()));
        }
        if field("deletionTimestamp").is_some() {
            return Ok(Next::Put(stored.unchanged()));
        }
        let mut fields = stored.fields.clone();
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.insert("deletionTimestamp".to_owned(), now().into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        }
        encode(self.resource, fields, self.options.field_validation).map(Next::Put)
    }
}
