//! Reads, changes and writes an object. The write succeeds only if the object has not changed since
//! it was read; otherwise the change is applied again.

use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{
    DeleteOptions, GetOptions, KubernetesEtcd, OptimisticResponse, PutOptions,
};
use etcd_api::proto::mvccpb::KeyValue;
use kube_api::Status;

use super::body::RequestBody;
use super::codec::{EncodedObject, StoredObject, encode};
use super::options::WriteOptions;
use super::patch::Patch;
use super::prepare::{IncomingObject, WriteTarget};
use super::ttl_lease::EventLease;
use crate::get::check_name;
use crate::metrics::{Metrics, Operation};
use crate::resource::Resource;
use crate::storage::error::storage_error;

/// The maximum number of attempts to apply a change while other clients write the object.
/// kube-apiserver continues until the request's deadline; so many consecutive conflicts mean that
/// something else is wrong.
const MAX_ATTEMPTS: usize = 64;

/// The maximum number of names that are generated to find a free one, as in kube-apiserver.
const MAX_GENERATED_NAMES: usize = 8;

/// A writer of one resource in one namespace (empty for cluster-scoped kinds).
pub(crate) struct Writer<'a> {
    pub(crate) resource: &'static Resource,
    /// The prefix of the resource's keys in storage.
    pub(crate) prefix: &'a [u8],
    pub(crate) namespace: &'a str,
    pub(crate) backend: &'a dyn KubernetesEtcd,
    pub(crate) metrics: &'a Metrics,
    /// The lease to which events are attached.
    pub(crate) event_lease: &'a EventLease,
    pub(crate) options: WriteOptions,
}

/// An object that has been written, or would have been without `dryRun`.
#[derive(Debug, Clone)]
pub(crate) struct WrittenObject {
    /// The stored bytes.
    pub(crate) value: Bytes,
    /// The revision of the write; 0 for an object that was not created because of `dryRun`.
    pub(crate) revision: i64,
    /// The effect of the write on the object.
    pub(crate) outcome: Outcome,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// The effect of a write on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The object has been created.
    Created,
    /// The object existed, and may have been changed.
    Updated,
    /// The object has been removed. The stored bytes are its last state.
    Removed,
}

/// The action to be applied to a stored object.
pub(crate) enum UpdateAction {
    /// Writes this state.
    Put(EncodedObject),
    /// Removes the object, which has been deleted and has no finalizers left. Contains its last
    /// state.
    Delete(EncodedObject),
}

impl Writer<'_> {
    /// Handles a POST: creates an object.
    ///
    /// # Errors
    /// 409 if the name is taken; the Status for an invalid object; failures of storage.
    pub(crate) async fn create(&self, request_body: &RequestBody) -> Result<WrittenObject, Status> {
        let incoming = IncomingObject::new(self.resource, request_body.object(self.resource)?)?;
        let mut names_left = match incoming.needs_generated_name() {
            true => MAX_GENERATED_NAMES,
            false => 1,
        };
        loop {
            names_left -= 1;
            match self.create_prepared(incoming.clone()).await {
                Err(taken) if taken.reason == "AlreadyExists" && names_left > 0 => {}
                made => return made,
            }
        }
    }

    async fn create_prepared(&self, mut incoming: IncomingObject) -> Result<WrittenObject, Status> {
        // kube-apiserver checks it last, in storage, which a dry run does not reach.
        let versioned = match self.options.dry_run {
            true => Ok(()),
            false => incoming.expect_no_resource_version(),
        };
        let has_generate_name = incoming.has_generate_name();
        let name = incoming.prepare_for_create(self.namespace)?;
        let encoded = encode(
            self.resource,
            incoming.fields,
            self.options.field_validation,
        )?;
        versioned?;
        self.insert(&name, has_generate_name, encoded).await
    }

    /// Handles a PUT: replaces an object, or its status.
    ///
    /// # Errors
    /// 404 if the object does not exist and its kind cannot be created by a PUT, 409 if the object
    /// has changed since the client read it; the Status for an invalid object; failures of storage.
    pub(crate) async fn replace(
        &self,
        name: &str,
        target: WriteTarget,
        request_body: &RequestBody,
    ) -> Result<WrittenObject, Status> {
        let incoming = IncomingObject::new(self.resource, request_body.object(self.resource)?)?;
        incoming.expect_name(name)?;
        let current = self.current(name).await?;
        if current.is_none()
            && target == WriteTarget::Main
            && self.resource.allows_create_on_update()
        {
            let mut incoming = incoming;
            let has_generate_name = incoming.has_generate_name();
            incoming.prepare_for_create_on_update(self.namespace)?;
            let encoded = encode(
                self.resource,
                incoming.fields,
                self.options.field_validation,
            )?;
            return self.insert(name, has_generate_name, encoded).await;
        }
        self.guaranteed_update(name, current, |stored| {
            let mut incoming = incoming.clone();
            incoming.prepare_for_update(target, self.namespace, stored)?;
            self.action(incoming)
        })
        .await
    }

    /// Handles a PATCH: applies the patch to an object, or to its status.
    ///
    /// # Errors
    /// 404 if the object does not exist, 409 if the patch contains a `resourceVersion` that is not
    /// current; those of [`Patch::parse`]; the Status for an invalid result; failures of storage.
    pub(crate) async fn patch(
        &self,
        name: &str,
        target: WriteTarget,
        request_body: &RequestBody,
    ) -> Result<WrittenObject, Status> {
        let Some(current) = self.current(name).await? else {
            return Err(self.not_found(name));
        };
        // As in kube-apiserver, a missing object (404) precedes a malformed patch (400).
        let patch = Patch::parse(&request_body.media_type, self.resource, &request_body.bytes)?;
        self.guaranteed_update(name, Some(current), |stored| {
            let mut fields = stored.visible();
            patch.apply(&mut fields)?;
            let made = IncomingObject::new(self.resource, fields).and_then(|mut incoming| {
                incoming.expect_same_uid(stored)?;
                incoming.prepare_for_update(target, self.namespace, stored)?;
                self.action(incoming)
            });
            made.map_err(Status::into_patch_error)
        })
        .await
    }

    /// Reads the current object from storage.
    ///
    /// # Errors
    /// 400 for a name that no object can have; failures of storage.
    pub(crate) async fn current(&self, name: &str) -> Result<Option<KeyValue>, Status> {
        check_name(name)?;
        let timed = self.metrics.etcd_request(Operation::Get, self.resource);
        let found = self
            .backend
            .get(&self.storage_key(name), GetOptions::default())
            .await
            .map_err(storage_error)?;
        drop(timed);
        Ok(found.kv)
    }

    /// Applies `change` to the object and writes the result. Retries while other clients write the
    /// object in between, like `GuaranteedUpdate` of k8s.io/apiserver's storage.
    pub(crate) async fn guaranteed_update(
        &self,
        name: &str,
        current: Option<KeyValue>,
        mut change: impl FnMut(&StoredObject) -> Result<UpdateAction, Status>,
    ) -> Result<WrittenObject, Status> {
        let mut current = current;
        for _ in 0..MAX_ATTEMPTS {
            let Some(kv) = current else {
                return Err(self.not_found(name));
            };
            let stored = StoredObject::open(self.resource, kv)?;
            let (encoded, outcome) = match change(&stored)? {
                UpdateAction::Put(encoded) => (encoded, Outcome::Updated),
                UpdateAction::Delete(encoded) => (encoded, Outcome::Removed),
            };
            // An object that has not changed is not written.
            let same = outcome == Outcome::Updated && encoded.value == stored.value;
            if same || self.options.dry_run {
                return Ok(written(encoded, stored.revision, outcome));
            }
            let response = match outcome {
                Outcome::Removed => self.remove(name, stored.revision).await?,
                _ => self.put(name, &encoded, stored.revision).await?,
            };
            if response.succeeded {
                return Ok(written(encoded, response.revision, outcome));
            }
            current = response.kv;
        }
        Err(Status::modified(self.resource.about(name)))
    }

    fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.resource.name, self.resource.group, name)
    }

    fn action(&self, incoming: IncomingObject) -> Result<UpdateAction, Status> {
        let finished = incoming.is_ready_to_remove();
        let encoded = encode(
            self.resource,
            incoming.fields,
            self.options.field_validation,
        )?;
        Ok(if finished {
            UpdateAction::Delete(encoded)
        } else {
            UpdateAction::Put(encoded)
        })
    }

    /// Writes a new object. If its name is taken, an object with a `generateName` is told to be
    /// sent again, even if it came with this name.
    async fn insert(
        &self,
        name: &str,
        has_generate_name: bool,
        encoded: EncodedObject,
    ) -> Result<WrittenObject, Status> {
        let mut revision = 0;
        let free = if self.options.dry_run {
            self.current(name).await?.is_none()
        } else {
            let put = self.put(name, &encoded, 0).await?;
            revision = put.revision;
            put.succeeded
        };
        if free {
            return Ok(written(encoded, revision, Outcome::Created));
        }
        let about = self.resource.about(name);
        let taken = match has_generate_name {
            true => Status::generate_name_conflict(about),
            false => Status::already_exists(about),
        };
        // If the existing object is being deleted, the error says so, for clients that wait for its
        // removal.
        let there = self.current(name).await.ok().flatten();
        let there = there.and_then(|kv| StoredObject::open(self.resource, kv).ok());
        Err(match there.is_some_and(|there| there.is_being_deleted()) {
            true => taken.while_being_deleted(),
            false => taken,
        })
    }

    /// Writes the object if its revision is `expected`; 0 if it must not exist.
    async fn put(
        &self,
        name: &str,
        encoded: &EncodedObject,
        expected: i64,
    ) -> Result<OptimisticResponse, Status> {
        let lease_id = match self.resource.has_ttl() {
            true => self
                .event_lease
                .current(self.backend)
                .await
                .map_err(storage_error)?,
            false => 0,
        };
        let options = PutOptions {
            get_on_failure: expected != 0,
            lease_id,
        };
        let operation = match expected {
            0 => Operation::Create,
            _ => Operation::Update,
        };
        let timed = self.metrics.etcd_request(operation, self.resource);
        let (key, value) = (self.storage_key(name), encoded.value.clone());
        let response = self
            .backend
            .optimistic_put(&key, value, expected, options)
            .await;
        drop(timed);
        if let Err(Error::Refused(Refusal::LeaseNotFound)) = response {
            self.event_lease.forget().await;
        }
        response.map_err(storage_error)
    }

    /// Removes the object if its revision is `expected`.
    async fn remove(&self, name: &str, expected: i64) -> Result<OptimisticResponse, Status> {
        let _timed = self.metrics.etcd_request(Operation::Delete, self.resource);
        let options = DeleteOptions {
            get_on_failure: true,
        };
        self.backend
            .optimistic_delete(&self.storage_key(name), expected, options)
            .await
            .map_err(storage_error)
    }

    fn storage_key(&self, name: &str) -> Vec<u8> {
        let key = self.resource.key(self.namespace, name);
        [self.prefix, key.as_bytes()].concat()
    }
}

fn written(encoded: EncodedObject, revision: i64, outcome: Outcome) -> WrittenObject {
    WrittenObject {
        value: encoded.value,
        revision,
        outcome,
        warnings: encoded.warnings,
    }
}
