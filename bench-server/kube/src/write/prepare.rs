//! Prepares an object for storage: sets, keeps and validates the fields that the server controls.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use kube_api::status::writes::ObjectName;
use kube_api::status::{Cause, Status};
use kube_api::time;
use serde_json::{Map, Value};

use super::codec::StoredObject;
use super::generate_name::generate;
use crate::resource::Resource;

/// The metadata fields that only the server changes. Every update keeps their values from the
/// stored object.
const SERVER_FIELDS: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// The part of an object that a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteTarget {
    /// Everything except the status.
    Main,
    /// The status and the metadata, such as labels and annotations; for a custom resource, only the
    /// status.
    Status,
    /// The finalizers of a namespace (`spec.finalizers`), which [`WriteTarget::Main`] does not
    /// change.
    Finalize,
}

/// An object as sent by a client, or as the result of a patch.
#[derive(Debug, Clone)]
pub(crate) struct IncomingObject {
    resource: &'static Resource,
    pub(crate) fields: Map<String, Value>,
}

impl IncomingObject {
    /// Checks that the object has the resource's kind and API version, and adds empty metadata if
    /// there is none.
    ///
    /// # Errors
    /// 400 for another kind or API version, and for metadata that is not an object.
    pub(crate) fn new(
        resource: &'static Resource,
        mut fields: Map<String, Value>,
    ) -> Result<Self, Status> {
        let named = |field| {
            fields
                .get(field)
                .map_or("", |text| text.as_str().unwrap_or("?"))
        };
        let (kind, version) = (named("kind"), named("apiVersion"));
        // The kind of a custom resource is a rule of the object, which is checked later.
        if !resource.is_custom() && !kind.is_empty() && kind != resource.kind {
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for this resource",
                resource.kind
            )));
        }
        let may_lack_version = !resource.is_custom();
        if version != resource.api_version && !(version.is_empty() && may_lack_version) {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({})",
                resource.api_version
            )));
        }
        let metadata = fields
            .entry("metadata")
            .or_insert_with(|| Map::new().into());
        if metadata.is_null() {
            *metadata = Map::new().into();
        }
        if !metadata.is_object() {
            return Err(Status::bad_request("metadata: expected an object"));
        }
        Ok(Self { resource, fields })
    }

    /// Returns a text field of the metadata; empty if it is not set.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.fields["metadata"][field].as_str().unwrap_or_default()
    }

    fn metadata(&mut self) -> &mut Map<String, Value> {
        match self.fields.get_mut("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => unreachable!("`IncomingObject::new` checks that metadata is an object"),
        }
    }

    /// Prepares a new object, and returns its name.
    ///
    /// # Errors
    /// 400 for a namespace other than that in the path, 422 for a name that is missing or not
    /// allowed.
    pub(crate) fn prepare_for_create(&mut self, namespace: &str) -> Result<String, Status> {
        self.set_namespace(namespace)?;
        if self.needs_generated_name() {
            let made_up = generate(self.text("generateName"));
            self.metadata().insert("name".to_owned(), made_up.into());
        }
        self.check_kind()?;
        self.check_name()?;
        let generation = self.resource.has_generation();
        let metadata = self.metadata();
        for field in SERVER_FIELDS.iter().chain(&["resourceVersion", "selfLink"]) {
            // Kinds whose generation is not maintained keep the client's value.
            if generation || *field != "generation" {
                metadata.remove(*field);
            }
        }
        let uid = uuid::Uuid::new_v4().to_string();
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), now().into());
        if generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        if self.resource.drops_status_on_create() {
            self.fields.remove("status");
        }
        self.set_defaults();
        Ok(self.text("name").to_owned())
    }

    /// Checks that a new object has no `resourceVersion`. One that is no number is passed over.
    ///
    /// # Errors
    /// 500 for a `resourceVersion`.
    pub(crate) fn expect_no_resource_version(&self) -> Result<(), Status> {
        match self.resource_version() {
            Ok(1..) => Err(Status::internal(
                "resourceVersion should not be set on objects to be created",
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether the object has a `generateName`, even if it also has a name.
    pub(crate) fn has_generate_name(&self) -> bool {
        !self.text("generateName").is_empty()
    }

    /// Returns whether the name is to be generated.
    pub(crate) fn needs_generated_name(&self) -> bool {
        self.text("name").is_empty() && !self.text("generateName").is_empty()
    }

    /// Prepares an object that a PUT creates, because it does not exist.
    ///
    /// # Errors
    /// Those of [`Self::prepare_for_create`]; 409 if the object has a uid, which implies that it
    /// existed before.
    pub(crate) fn prepare_for_create_on_update(
        &mut self,
        namespace: &str,
    ) -> Result<String, Status> {
        expect_uid(self.resource.about(self.text("name")), self.text("uid"), "")?;
        // There is no stored object with which to compare `resourceVersion`, but it is read.
        self.resource_version()?;
        self.metadata().remove("resourceVersion");
        self.prepare_for_create(namespace)
    }

    /// Checks that the object has the name in the path.
    ///
    /// # Errors
    /// 400 for another name or no name.
    pub(crate) fn expect_name(&self, name: &str) -> Result<(), Status> {
        match self.text("name") {
            given if given == name => Ok(()),
            "" => Err(Status::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            ))),
            given => Err(Status::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            ))),
        }
    }

    /// Checks that a patch has not changed the uid.
    ///
    /// # Errors
    /// 422 if the uid has changed.
    pub(crate) fn expect_same_uid(&self, stored: &StoredObject) -> Result<(), Status> {
        let given = self.text("uid");
        if given.is_empty() || given == stored.text("uid") {
            return Ok(());
        }
        let cause = Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {given:?}: field is immutable"),
            field: "metadata.uid",
        };
        Err(self.invalid(vec![cause]))
    }

    /// Prepares an update of `stored`.
    ///
    /// # Errors
    /// 400 for a name or namespace other than that in the path, 409 if `stored` has another uid or
    /// `resourceVersion` than the client sent, 422 if the client must send a `resourceVersion` and
    /// did not.
    pub(crate) fn prepare_for_update(
        &mut self,
        target: WriteTarget,
        namespace: &str,
        stored: &StoredObject,
    ) -> Result<(), Status> {
        let name = stored.text("name");
        let about = self.resource.about(name);
        self.expect_name(name)?;
        self.set_namespace(namespace)?;
        expect_uid(about, self.text("uid"), stored.text("uid"))?;
        match self.resource_version()? {
            0 if self.resource.requires_resource_version() => {
                let cause = Cause {
                    reason: "FieldValueInvalid",
                    message: "Invalid value: 0: must be specified for an update".to_owned(),
                    field: "metadata.resourceVersion",
                };
                // This error contains the name of the resource, whereas others contain the kind.
                let (named, group) = (self.resource.name, self.resource.group);
                return Err(Status::invalid(named, group, name, vec![cause]));
            }
            0 => {}
            version if i64::try_from(version) == Ok(stored.revision) => {}
            _ => return Err(Status::modified(about)),
        }
        self.check_kind()?;
        let metadata = self.metadata();
        metadata.remove("resourceVersion");
        metadata.remove("selfLink");
        for field in SERVER_FIELDS {
            match stored.metadata().and_then(|stored| stored.get(field)) {
                Some(kept) => metadata.insert(field.to_owned(), kept.clone()),
                None => metadata.remove(field),
            };
        }
        self.keep_what_target_excludes(target, stored);
        self.set_defaults();
        if self.resource.has_generation() && self.changes_spec(stored) {
            let generation = stored
                .metadata()
                .and_then(|stored| stored.get("generation")?.as_i64());
            let next = generation.unwrap_or(0) + 1;
            self.metadata().insert("generation".to_owned(), next.into());
        }
        Ok(())
    }

    /// Returns the `resourceVersion`; 0 if it is not set.
    ///
    /// # Errors
    /// 500 if it is no number, in the words of Go's `strconv`.
    fn resource_version(&self) -> Result<u64, Status> {
        let text = self.text("resourceVersion");
        if text.is_empty() {
            return Ok(0);
        }
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let why = match digits {
            true => "value out of range",
            false => "invalid syntax",
        };
        let number = text.parse().ok().filter(|_| digits);
        number
            .ok_or_else(|| Status::internal(format!("strconv.ParseUint: parsing {text:?}: {why}")))
    }

    /// Returns whether the object has been deleted and has no finalizers left.
    pub(crate) fn is_ready_to_remove(&self) -> bool {
        let metadata = &self.fields["metadata"];
        let held = metadata["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        !metadata["deletionTimestamp"].is_null() && !held
    }

    /// Returns whether the write changes the spec, or any field of a custom resource except
    /// metadata and status.
    fn changes_spec(&self, stored: &StoredObject) -> bool {
        if !self.resource.is_custom() {
            return self.fields.get("spec") != stored.fields.get("spec");
        }
        fn wanted(fields: &Map<String, Value>) -> HashMap<&str, &Value> {
            let fields = fields.iter().map(|(name, value)| (name.as_str(), value));
            fields
                .filter(|(name, _)| !matches!(*name, "metadata" | "status" | "kind" | "apiVersion"))
                .collect()
        }
        wanted(&self.fields) != wanted(&stored.fields)
    }

    /// Replaces the fields that the write must not change by those of the stored object.
    fn keep_what_target_excludes(&mut self, target: WriteTarget, stored: &StoredObject) {
        if !self.resource.has_status() {
            return;
        }
        let all_but_status = target == WriteTarget::Status && self.resource.is_custom();
        let foreign = |name: &str| match target {
            WriteTarget::Main | WriteTarget::Finalize => name == "status",
            WriteTarget::Status if all_but_status => name != "status",
            WriteTarget::Status => !matches!(name, "status" | "metadata" | "kind" | "apiVersion"),
        };
        self.fields.retain(|name, _| !foreign(name));
        for (name, value) in stored.fields.iter().filter(|(name, _)| foreign(name)) {
            self.fields.insert(name.clone(), value.clone());
        }
        match (self.resource.kind, target) {
            // Old kubelets corrupt ownerReferences, and omit a qosClass that they do not know.
            ("Pod", WriteTarget::Status) => {
                self.keep_stored_field(stored, ["metadata", "ownerReferences"]);
                if self.fields["status"]["qosClass"]
                    .as_str()
                    .unwrap_or_default()
                    == ""
                {
                    self.keep_stored_field(stored, ["status", "qosClass"]);
                }
            }
            ("Namespace", WriteTarget::Main) => {
                self.keep_stored_field(stored, ["spec", "finalizers"])
            }
            _ => {}
        }
    }

    /// Replaces one field by that of the stored object.
    fn keep_stored_field(&mut self, stored: &StoredObject, [holder, field]: [&str; 2]) {
        let kept = stored
            .fields
            .get(holder)
            .and_then(|fields| fields.get(field));
        let there = self.fields.entry(holder).or_insert(Value::Null);
        if there.is_null() && kept.is_some() {
            *there = Map::new().into();
        }
        match (there.as_object_mut(), kept) {
            (Some(fields), Some(kept)) => {
                fields.insert(field.to_owned(), kept.clone());
            }
            (Some(fields), None) => {
                fields.remove(field);
            }
            (None, _) => {}
        }
    }

    /// Sets the namespace to that in the path. Returns 400 for another namespace.
    fn set_namespace(&mut self, namespace: &str) -> Result<(), Status> {
        match self.text("namespace") {
            given if given == namespace => {}
            "" => {
                self.metadata()
                    .insert("namespace".to_owned(), namespace.into());
            }
            _ if !self.resource.namespaced => {
                self.metadata().remove("namespace");
            }
            _ => {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
        Ok(())
    }

    /// Checks the kind of a custom resource. Objects of other kinds are refused as they are read.
    fn check_kind(&self) -> Result<(), Status> {
        let kind = self.fields.get("kind").and_then(Value::as_str);
        let kind = kind.unwrap_or_default();
        if kind == self.resource.kind || !self.resource.is_custom() {
            return Ok(());
        }
        let cause = Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {kind:?}: must be {}", self.resource.kind),
            field: "kind",
        };
        let group = self.resource.group;
        Err(Status::invalid(
            kind.to_owned(),
            group,
            self.text("name"),
            vec![cause],
        ))
    }

    /// Checks the name, and what it was generated from.
    fn check_name(&self) -> Result<(), Status> {
        let (name, generate_name) = (self.text("name"), self.text("generateName"));
        let rule = self.resource.name_rule();
        let invalid = |field: &'static str, value: &str, reasons: Vec<String>| {
            let value = format!("{value:?}");
            reasons.into_iter().map(move |why| Cause {
                reason: "FieldValueInvalid",
                message: format!("Invalid value: {value}: {why}"),
                field,
            })
        };
        let mut causes = Vec::new();
        if !generate_name.is_empty() {
            let reasons = rule.refuse_generate_name(generate_name);
            causes.extend(invalid("metadata.generateName", generate_name, reasons));
        }
        if name.is_empty() {
            causes.push(Cause {
                reason: "FieldValueRequired",
                message: "Required value: name or generateName is required".to_owned(),
                field: "metadata.name",
            });
        } else {
            causes.extend(invalid("metadata.name", name, rule.refuse(name)));
        }
        match causes.is_empty() {
            true => Ok(()),
            false => Err(self.invalid(causes)),
        }
    }

    fn invalid(&self, causes: Vec<Cause>) -> Status {
        Status::invalid(
            self.resource.kind,
            self.resource.group,
            self.text("name"),
            causes,
        )
    }

    /// Sets fields that clients may omit, but on which other clients rely.
    fn set_defaults(&mut self) {
        match self.resource.kind {
            "Secret" => {
                self.merge_string_data();
                default(&mut self.fields, "type", "Opaque");
            }
            "Pod" => default_below(&mut self.fields, "status", "phase", "Pending"),
            "Namespace" => default_below(&mut self.fields, "status", "phase", "Active"),
            _ => {}
        }
    }

    /// Merges a secret's `stringData` into `data`. If `stringData` is not a map of texts it is
    /// kept, and encoding then rejects its type.
    fn merge_string_data(&mut self) {
        let Some(Value::Object(texts)) = self.fields.get("stringData") else {
            return;
        };
        let text = |value: &Value| match value {
            Value::Null => Some(base64("")),
            value => value.as_str().map(base64),
        };
        let texts = texts.iter();
        let texts = texts.map(|(name, value)| Some((name.clone(), text(value)?.into())));
        let Some(texts) = texts.collect::<Option<Vec<_>>>() else {
            return;
        };
        let data = self.fields.entry("data").or_insert(Value::Null);
        if data.is_null() {
            *data = Map::new().into();
        }
        if let Value::Object(data) = data {
            data.extend(texts);
            self.fields.remove("stringData");
        }
    }
}

/// Checks that the uid of an object, if given, equals that of the stored object.
///
/// # Errors
/// 409 if it does not.
fn expect_uid(about: ObjectName<'_>, given: &str, stored: &str) -> Result<(), Status> {
    if given.is_empty() || given == stored {
        return Ok(());
    }
    let why =
        format!("Precondition failed: UID in precondition: {given}, UID in object meta: {stored}");
    Err(Status::conflict(about, why))
}

/// Returns the current time as `metav1.Time`.
pub(crate) fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut text = Vec::new();
    time::put_rfc3339(&mut text, since.as_secs() as i64);
    String::from_utf8(text).unwrap_or_default()
}

fn default(fields: &mut Map<String, Value>, name: &str, value: &str) {
    let there = fields.entry(name).or_insert(Value::Null);
    if there.is_null() || there == "" {
        *there = value.into();
    }
}

fn default_below(fields: &mut Map<String, Value>, holder: &str, name: &str, value: &str) {
    let holder = fields.entry(holder).or_insert(Value::Null);
    if holder.is_null() {
        *holder = Map::new().into();
    }
    if let Value::Object(fields) = holder {
        default(fields, name, value);
    }
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
