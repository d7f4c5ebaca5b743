//! The aggregated and the unaggregated discovery documents, and their common form: groups, their
//! versions with the preferred one first, and the resources of each version.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::{Connection, KubeError};

/// Accepts both forms. A server without aggregated discovery sends the second.
const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/// Maximum size of a document, bytes. Those of clusters with hundreds of custom resources have a
/// few MB.
const DOCUMENT_BYTES: usize = 64 << 20;

/// The API groups and resources that a server serves.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) groups: Vec<Group>,
    /// Group versions whose resources could not be read, such as those of an aggregated API that is
    /// down.
    pub(super) silent: Vec<String>,
}

/// An API group. The name of the core group is empty.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// The preferred one first.
    pub(super) versions: Vec<Version>,
}

/// One version of a group.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) name: String,
    /// `None` until they have been requested.
    pub(super) resources: Option<Vec<Resource>>,
}

/// One resource type.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) singular: String,
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    pub(super) is_namespaced: bool,
    pub(super) verbs: Vec<String>,
}

impl Resource {
    pub(super) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// Returns how well a name in lower case matches: 0 for the name in URLs, 1 for the singular or
    /// the kind, 2 for a short name; `None` if it does not match.
    pub(super) fn rank(&self, name: &str) -> Option<u8> {
        if self.name == name {
            return Some(0);
        }
        if self.singular == name || self.kind.eq_ignore_ascii_case(name) {
            return Some(1);
        }
        let mut short_names = self.short_names.iter();
        short_names.any(|short| short == name).then_some(2)
    }
}

impl Served {
    /// Reads `/api` and `/apis`. If the server has only one of them, returns the groups of that
    /// one.
    ///
    /// # Errors
    /// [`KubeError`] when the server cannot be reached, refuses a request, or has neither.
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, KubeError> {
        let core = get::<Index>(connection, "/api").await;
        let others = get::<Index>(connection, "/apis").await;
        let indexes = match (core, others) {
            (Err(error), Err(_)) => return Err(error),
            (Ok(core), Ok(others)) => vec![core, others],
            (Ok(one), Err(error)) | (Err(error), Ok(one)) => match is_missing(&error) {
                true => vec![one],
                false => return Err(error),
            },
        };
        Ok(Self {
            groups: indexes.into_iter().flat_map(Index::groups).collect(),
            silent: Vec::new(),
        })
    }

    /// Requests the resources of the groups for which `wanted` holds, if they are not known yet.
    ///
    /// # Errors
    /// [`KubeError`] when the connection breaks. A version that is refused or cannot be read is
    /// added to [`Self::silent`].
    pub(super) async fn fill(
        &mut self,
        connection: &mut Connection,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(), KubeError> {
        for group in self.groups.iter_mut().filter(|group| wanted(&group.name)) {
            for version in &mut group.versions {
                if version.resources.is_some() {
                    continue;
                }
                let (path, shown) = match group.name.as_str() {
                    "" => (format!("/api/{}", version.name), version.name.clone()),
                    name => {
                        let api_version = format!("{name}/{}", version.name);
                        (format!("/apis/{api_version}"), api_version)
                    }
                };
                version.resources = Some(match get::<ResourceList>(connection, &path).await {
                    Ok(list) => list.resources(),
                    Err(KubeError::Refused { .. } | KubeError::Body(_)) => {
                        self.silent.push(shown);
                        Vec::new()
                    }
                    Err(error) => return Err(error),
                });
            }
        }
        Ok(())
    }
}

fn is_missing(error: &KubeError) -> bool {
    matches!(error, KubeError::Refused { status, .. } if *status == http::StatusCode::NOT_FOUND)
}

async fn get<T: DeserializeOwned>(connection: &mut Connection, path: &str) -> Result<T, KubeError> {
    let mut body = connection.get(path, ACCEPT).await?;
    let mut text = Vec::new();
    while let Some(bytes) = body.next().await? {
        text.extend_from_slice(&bytes);
        if text.len() > DOCUMENT_BYTES {
            connection.cancel();
            let limit = DOCUMENT_BYTES >> 20;
            return Err(KubeError::Body(format!("{path}: more than {limit} MiB")));
        }
    }
    serde_json::from_slice(&text).map_err(|e| KubeError::Body(format!("{path}: {e}")))
}

/// `/api` or `/apis`.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Index {
    /// In the aggregated form.
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated(Groups),
    /// `/apis`, without resources.
    #[serde(rename = "APIGroupList")]
    Names(Names),
    /// `/api`, without resources.
    #[serde(rename = "APIVersions")]
    Core(CoreVersions),
}

#[derive(Debug, Deserialize)]
pub(super) struct Groups {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Names {
    #[serde(default)]
    groups: Vec<NamedGroup>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CoreVersions {
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Debug, Default, Deserialize)]
struct GroupMeta {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct AggregatedVersion {
    version: String,
    /// `Current`, or `Stale` if the server behind the API does not respond.
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedGroup {
    name: String,
    #[serde(default)]
    versions: Vec<NamedVersion>,
    preferred_version: Option<NamedVersion>,
}

#[derive(Debug, Deserialize)]
struct NamedVersion {
    version: String,
}

/// `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceList {
    #[serde(default)]
    resources: Vec<NamedResource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Index {
    pub(super) fn groups(self) -> Vec<Group> {
        match self {
            Self::Aggregated(all) => all.items.into_iter().map(AggregatedGroup::group).collect(),
            Self::Names(all) => all.groups.into_iter().map(NamedGroup::group).collect(),
            Self::Core(core) => vec![Group {
                name: String::new(),
                versions: core.versions.into_iter().map(Version::unasked).collect(),
            }],
        }
    }
}

impl Version {
    fn unasked(name: String) -> Self {
        Self {
            name,
            resources: None,
        }
    }
}

impl AggregatedGroup {
    /// Converts the group. Its versions are already in order of preference.
    fn group(self) -> Group {
        Group {
            name: self.metadata.name,
            versions: self.versions.into_iter().map(Version::from).collect(),
        }
    }
}

impl From<AggregatedVersion> for Version {
    fn from(found: AggregatedVersion) -> Self {
        // Omitted resources are requested separately, so that the server returns the reason.
        let is_left_out = found.freshness == "Stale" && found.resources.is_empty();
        let resources = found.resources.into_iter().map(Resource::from);
        Self {
            name: found.version,
            resources: (!is_left_out).then(|| resources.collect()),
        }
    }
}

impl From<AggregatedResource> for Resource {
    fn from(found: AggregatedResource) -> Self {
        Self {
            name: found.resource,
            singular: found.singular_resource,
            short_names: found.short_names,
            kind: found.response_kind.kind,
            is_namespaced: found.scope == "Namespaced",
            verbs: found.verbs,
        }
    }
}

impl NamedGroup {
    fn group(self) -> Group {
        let mut names: Vec<_> = self.versions.into_iter().map(|v| v.version).collect();
        if let Some(preferred) = self.preferred_version {
            // The sort is stable: the other versions keep their order.
            names.sort_by_key(|name| *name != preferred.version);
        }
        Group {
            name: self.name,
            versions: names.into_iter().map(Version::unasked).collect(),
        }
    }
}

impl ResourceList {
    /// Returns the resources without subresources (`pods/status`).
    pub(super) fn resources(self) -> Vec<Resource> {
        let whole = self.resources.into_iter();
        let whole = whole.filter(|resource| !resource.name.contains('/'));
        whole.map(Resource::from).collect()
    }
}

impl From<NamedResource> for Resource {
    fn from(found: NamedResource) -> Self {
        Self {
            name: found.name,
            singular: found.singular_name,
            short_names: found.short_names,
            kind: found.kind,
            is_namespaced: found.namespaced,
            verbs: found.verbs,
        }
    }
}
