//! `--resource` and `--namespace`: what is listed on existing Kubernetes APIs instead of the
//! resource that a scenario's data set stands for.

use anyhow::anyhow;
use kube_api::client::discovery::probe_lists;
use kube_api::client::{Connection, DiscoveryError, Options, discover};
use kube_api::{ApiResource, ResourceName};
use workloads::{Kind, Scenario};

use super::Plan;
use crate::cli::RunArgs;
use crate::exit::Failure;
use crate::run::foreign::Collection;
use crate::run::target::{Target, answered, unusable};
use crate::servers::Launcher;
use crate::servers::target_spec::TargetSpec;

/// The flags of the command line.
#[derive(Debug, Default)]
pub(super) struct ResourceFlags {
    /// The value of `--resource`.
    name: Option<ResourceName>,
    /// The value of `--namespace`.
    namespace: Option<String>,
    /// The resource that the name means on all targets, once they were asked.
    resource: Option<ApiResource>,
}

impl ResourceFlags {
    /// Reads the command line.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 when one of the flags is given and a target is not an existing
    /// Kubernetes API.
    pub(super) fn of(args: &RunArgs, targets: &[Target]) -> Result<Self, Failure> {
        let flags = [
            ("--resource", args.resource.is_some()),
            ("--namespace", args.namespace.is_some()),
        ];
        let is_kube = |target: &&Target| {
            matches!(target.spec, TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_))
        };
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        if let Some((flag, _)) = given
            && let Some(other) = targets.iter().find(|target| !is_kube(target))
        {
            return Err(Failure::usage(anyhow!(
                "{flag} says what is listed of an existing Kubernetes API, and `{other}` is none: name one with --kube URL"
            )));
        }
        Ok(Self {
            name: args.resource.clone(),
            namespace: args.namespace.clone(),
            resource: None,
        })
    }

    /// Keeps one data set of a scenario for each resource that is listed. Removes the thresholds,
    /// which are about the scenario's own objects.
    pub(super) fn narrow(&self, scenario: &mut Scenario) {
        if self.name.is_none() && self.namespace.is_none() {
            return;
        }
        let mut kinds = Vec::new();
        scenario.data_sets.retain(|spec| {
            let is_first = kinds.is_empty() || self.name.is_none() && !kinds.contains(&spec.kind);
            kinds.push(spec.kind);
            is_first
        });
        scenario.thresholds.clear();
    }
}

impl Plan {
    /// Asks every target which resource `--resource` means there. If the resource is served in JSON
    /// only, cases ask for JSON instead of protobuf, and a note says so.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 when a target does not have the resource, or the name means
    /// different resources on two targets.
    pub async fn discover(&mut self) -> Result<(), Failure> {
        let Some(name) = &self.resource_flags.name else {
            return Ok(());
        };
        let namespace = self.resource_flags.namespace.as_deref();
        let mut found: Option<(&Target, ApiResource)> = None;
        for target in &self.targets {
            let asked = async {
                let resource = resolve(&self.launcher, target, name, namespace).await;
                resource.map_err(|e| unusable(target, e))
            };
            let resource = answered(target, asked).await?;
            if namespace.is_some() && !resource.is_namespaced {
                let name = &resource.name;
                let reason = format!("{name} are in no namespace: leave --namespace out");
                return Err(unusable(target, reason));
            }
            match &mut found {
                None => found = Some((target, resource)),
                Some((first, known)) => agree(known, first, resource, target)?,
            }
        }
        let Some((_, resource)) = found else {
            return Ok(());
        };
        if !resource.has_protobuf {
            self.notes.push(format!(
                "{} is served in JSON only, as custom resources are: cases that ask for protobuf ask for JSON",
                resource.name
            ));
            self.scenarios.iter_mut().for_each(Scenario::ask_for_json);
        }
        self.resource_flags.resource = Some(resource);
        Ok(())
    }

    /// Returns the collection that is listed on an existing API, for a scenario's data set.
    pub(in crate::run) fn collection(&self, scenario: &Scenario, data_set: &str) -> Collection {
        let of_data_set = || {
            let mut specs = scenario.data_sets.iter();
            match specs.find(|spec| spec.name == data_set) {
                Some(spec) if spec.kind == Kind::ConfigMaps => {
                    ApiResource::core("configmaps", "ConfigMap")
                }
                _ => ApiResource::core("pods", "Pod"),
            }
        };
        let resource = self.resource_flags.resource.clone();
        Collection {
            resource: resource.unwrap_or_else(of_data_set),
            namespace: self.resource_flags.namespace.clone(),
        }
    }

    /// Returns the name of a collection in results: the collection itself if the command line names
    /// it, else the data set that it stands for.
    pub(in crate::run) fn name_of(&self, collection: &Collection, data_set: &str) -> String {
        match (
            &self.resource_flags.resource,
            &self.resource_flags.namespace,
        ) {
            (None, None) => data_set.to_owned(),
            _ => collection.to_string(),
        }
    }
}

/// Asks a target which resource a name means, and how it is served.
async fn resolve(
    launcher: &Launcher,
    target: &Target,
    name: &ResourceName,
    namespace: Option<&str>,
) -> Result<ApiResource, DiscoveryError> {
    let (url, access) = launcher.kube_of(&target.spec)?;
    let mut connection = Connection::new(&url, access, Options::default())?;
    let mut resource = discover(&mut connection, name).await?;
    // A resource without namespaces is rejected with an error of its own if --namespace was given.
    if resource.is_namespaced || namespace.is_none() {
        probe_lists(&mut connection, &mut resource, namespace).await?;
    }
    Ok(resource)
}

/// Combines the resource of the first target with that of another: it has protobuf and watches only
/// if both targets support them, so that the server is the only difference between targets.
///
/// # Errors
/// [`Failure`] with exit code 2 when the two are different resources.
fn agree(
    known: &mut ApiResource,
    first: &Target,
    other: ApiResource,
    target: &Target,
) -> Result<(), Failure> {
    let same = |of: &ApiResource| {
        let kinds = (of.kind.clone(), of.list_kind.clone());
        (of.name.clone(), kinds, of.is_namespaced)
    };
    if same(known) != same(&other) {
        let (one, another) = (&known.name, &other.name);
        return Err(Failure::usage(anyhow!(
            "{first} has {one} of kind {}, {target} {another} of kind {}: one run compares servers, not resources; name the version, as in RESOURCE.VERSION.GROUP",
            known.kind,
            other.kind
        )));
    }
    known.has_protobuf &= other.has_protobuf;
    known.is_watchable &= other.is_watchable;
    Ok(())
}
