//! DELETE of one object, or of all objects that a list selects.

use futures::stream::{self, StreamExt, TryStreamExt};
use kube_api::Status;
use serde_json::Value;

use super::codec::{StoredObject, encode};
use super::delete_options::Preconditions;
use super::guaranteed_update::{Outcome, UpdateAction, Writer, WrittenObject};
use super::prepare::now;

/// The number of concurrent deletions in a collection.
const CONCURRENT_DELETES: usize = 16;

/// The result of a DELETE.
#[derive(Debug, Clone)]
pub(crate) enum DeleteOutcome {
    /// The object has been removed. Contains its uid.
    Removed(String),
    /// The object: either marked as deleted, because it has finalizers, or the last state of a
    /// removed object whose kind is returned.
    Object(WrittenObject),
}

impl Writer<'_> {
    /// Deletes an object, or marks it as deleted if it has finalizers.
    ///
    /// # Errors
    /// 404 if the object does not exist, 409 if a precondition fails, 403 if it can never be
    /// deleted; failures of storage.
    pub(crate) async fn delete(
        &self,
        name: &str,
        preconditions: &Preconditions,
    ) -> Result<DeleteOutcome, Status> {
        let current = self.current(name).await?;
        let mut uid = String::new();
        let written = self
            .guaranteed_update(name, current, |stored| {
                self.check_preconditions(name, stored, preconditions)?;
                if self.resource.is_undeletable(name) {
                    let why = "this namespace may not be deleted";
                    return Err(Status::forbidden(self.resource.about(name), why));
                }
                uid = stored.text("uid").to_owned();
                self.delete_action(stored)
            })
            .await?;
        Ok(match written.outcome {
            Outcome::Removed if !self.resource.returns_deleted() => DeleteOutcome::Removed(uid),
            _ => DeleteOutcome::Object(written),
        })
    }

    /// Deletes all objects with these names, several at a time. An object that does not exist is
    /// not an error.
    ///
    /// # Errors
    /// The first failure, after which no further objects are deleted.
    pub(crate) async fn delete_all(
        &self,
        names: impl IntoIterator<Item = String>,
        preconditions: &Preconditions,
    ) -> Result<(), Status> {
        stream::iter(names)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENT_DELETES, |name| async move {
                match self.delete(&name, preconditions).await {
                    Err(status) if status.code != 404 => Err(status),
                    _ => Ok(()),
                }
            })
            .await
    }

    fn check_preconditions(
        &self,
        name: &str,
        stored: &StoredObject,
        preconditions: &Preconditions,
    ) -> Result<(), Status> {
        let broken = |what: &str, given: &str, found: &str, then: &str| {
            let why = format!(
                "the {what} in the precondition ({given}) does not match the {what} in record ({found}). \
                 The object might have been {then}"
            );
            Err(Status::conflict(self.resource.about_kind(name), why))
        };
        if let Some(uid) = &preconditions.uid
            && uid != stored.text("uid")
        {
            return broken("UID", uid, stored.text("uid"), "deleted and then recreated");
        }
        let current = stored.revision.to_string();
        match &preconditions.resource_version {
            Some(version) if *version != current => {
                broken("ResourceVersion", version, &current, "modified")
            }
            _ => Ok(()),
        }
    }

    /// Returns the action by which the deletion changes or removes the object.
    fn delete_action(&self, stored: &StoredObject) -> Result<UpdateAction, Status> {
        let metadata = stored.metadata();
        let field = |name| metadata.and_then(|metadata| metadata.get(name));
        let held = field("finalizers").and_then(|list| list.as_array());
        let held = held.is_some_and(|list| !list.is_empty());
        if !held && !self.resource.returns_deleted() {
            return Ok(UpdateAction::Delete(stored.unchanged()));
        }
        let mut fields = stored.fields.clone();
        if field("deletionTimestamp").is_none()
            && let Some(Value::Object(metadata)) = fields.get_mut("metadata")
        {
            metadata.insert("deletionTimestamp".to_owned(), now().into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            // A deletion changes the desired state, as a change of the spec does.
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
                metadata.insert("generation".to_owned(), (generation + 1).into());
            }
        } else if held {
            return Ok(UpdateAction::Put(stored.unchanged()));
        }
        let encoded = encode(self.resource, fields, self.options.field_validation)?;
        Ok(match held {
            true => UpdateAction::Put(encoded),
            false => UpdateAction::Delete(encoded),
        })
    }
}
