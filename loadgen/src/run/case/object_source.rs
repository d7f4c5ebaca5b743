//! Where a case's objects come from: which objects are listed, and how they are written.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kube_api::client::{HttpVersion, Options};
use load::operation::leases::GrantedLeases;
use load::operation::list::{ListCase, ListParameters};
use load::verify::{Expected, Verifier};
use workloads::DataSet;
use workloads::scenario::{Http, LoadsSpec};

use super::{CaseRun, EarlyEnd, Measured};
use crate::progress::Counted;
use crate::run::foreign::Collection;
use crate::seed::kube::{SeededObjects, resource_of};
use crate::seed::{SeededSlices, fill_log, seed};
use crate::servers::running::Running;
use crate::to_result;

/// The key prefix of data sets on servers that loadgen starts: the one below which an apiserver
/// reads.
const OWN_ROOT: &str = "/registry/";

/// The suffix of the root of a data set.
const REGISTRY: &str = "registry/";
/// The suffix that replaces it, for keys that loads create.
const CREATED: &str = "created/";

/// The source of a case's objects.
#[derive(Debug, Clone)]
pub(in crate::run) enum ObjectSource {
    /// Fresh servers are seeded for this case alone.
    Fresh(Arc<DataSet>),
    /// An endpoint that was seeded once for all its cases.
    Seeded {
        data: Arc<DataSet>,
        root: String,
        expected: Expected,
        /// Leases of the case's loads, which are revoked at the end.
        leases: Arc<GrantedLeases>,
    },
    /// A Kubernetes API into which the data set was seeded once for all its cases.
    SeededNamespaces(Arc<SeededObjects>),
    /// The existing contents of an endpoint.
    Existing {
        /// The key prefix, on an etcd.
        prefix: String,
        /// The collection, on a Kubernetes API.
        collection: Collection,
    },
}

/// Returns the prefix of keys that loads create on an etcd whose objects are below `root`. It is
/// beside `root`, so that lists of the data set do not change.
pub(in crate::run) fn created_root(root: &str) -> String {
    let beside = root.strip_suffix(REGISTRY).unwrap_or(root);
    format!("{beside}{CREATED}")
}

impl CaseRun<'_> {
    /// Returns the data set, if loadgen wrote it.
    pub(in crate::run) fn data(&self) -> Option<&Arc<DataSet>> {
        match &self.source {
            ObjectSource::Fresh(data) | ObjectSource::Seeded { data, .. } => Some(data),
            ObjectSource::SeededNamespaces(seeded) => Some(seeded.data()),
            ObjectSource::Existing { .. } => None,
        }
    }

    /// Returns what is listed, and with which parameters.
    pub(super) fn list_case(&self) -> ListCase {
        let below =
            |root: &str, data: &DataSet| (format!("{root}{}", data.prefix()), resource_of(data));
        let (prefix, resource) = match &self.source {
            ObjectSource::Fresh(data) => below(OWN_ROOT, data),
            ObjectSource::Seeded { data, root, .. } => below(root, data),
            ObjectSource::SeededNamespaces(seeded) => below(OWN_ROOT, seeded.data()),
            ObjectSource::Existing { prefix, collection } => {
                (prefix.clone(), collection.resource.clone())
            }
        };
        let mut parameters = ListParameters::new(
            self.spec.media.unwrap_or_default(),
            Options {
                http: match self.spec.http.unwrap_or_default() {
                    Http::H1 => HttpVersion::H1,
                    Http::H2 => HttpVersion::H2,
                },
                gzip: self.spec.gzip,
                read_per_s: self.spec.read_per_s.map(|size| size.0),
            },
        );
        let case = self.spec.loads.as_ref();
        parameters.ignores_made = case.is_some_and(LoadsSpec::writes_through_api);
        match &self.source {
            ObjectSource::SeededNamespaces(seeded) => {
                parameters.namespace.clone_from(&seeded.only_namespace);
                parameters.own_namespaces = Some(seeded.names_begin.clone());
            }
            ObjectSource::Existing { collection, .. } => {
                parameters.namespace.clone_from(&collection.namespace)
            }
            ObjectSource::Fresh(_) | ObjectSource::Seeded { .. } => {}
        }
        ListCase {
            tier: self.tier,
            strategy: self.strategy(),
            prefix,
            resource,
            parameters,
            go_clients: self.plan.go_clients.clone(),
        }
    }

    /// Seeds fresh servers. Returns the verifier for the lists.
    pub(super) async fn seeded(
        &self,
        running: &Running,
        measured: &mut Measured,
    ) -> Result<Verifier, EarlyEnd> {
        let (root, expected) = match &self.source {
            ObjectSource::Fresh(data) => {
                let expected = self.seed(data, running, measured).await?;
                (OWN_ROOT, Some(expected))
            }
            ObjectSource::Seeded { root, expected, .. } => (root.as_str(), Some(expected.clone())),
            ObjectSource::SeededNamespaces(seeded) => (OWN_ROOT, Some(seeded.expected.clone())),
            ObjectSource::Existing { .. } => ("", None),
        };
        let written = self.data().zip(expected.as_ref());
        measured.data_set =
            written.map(|(data, expected)| to_result::data_set(data, &expected.fingerprint));
        Ok(Verifier {
            root: root.to_owned(),
            expected,
            by_node: HashMap::new(),
            latest: Arc::default(),
        })
    }

    async fn seed(
        &self,
        data: &Arc<DataSet>,
        running: &Running,
        measured: &mut Measured,
    ) -> Result<Expected, EarlyEnd> {
        let config = running.etcd.as_ref();
        let config = config.ok_or_else(|| EarlyEnd::Failed("nothing to seed".to_owned()))?;
        let title = format!("{}/{}: seeding", self.target.name, self.spec.name());
        let phase = self.progress.phase(&title, data.len(), Counted::Objects);
        let written = Arc::new(SeededSlices::default());
        let begun = Instant::now();
        let seeded = seed(config, data, OWN_ROOT, &written, &phase);
        let expected = self.unless_stopped(seeded).await?;
        let expected = expected.map_err(|e| EarlyEnd::Failed(format!("seeding: {e}")))?;
        let seed_s = begun.elapsed().as_secs_f64();
        if running.folder().is_some() {
            let filled = self.unless_stopped(fill_log(config, data.len(), OWN_ROOT));
            let filled = filled.await?;
            filled.map_err(|e| EarlyEnd::Failed(format!("entries without effect: {e}")))?;
        }
        measured.case.seed_s = Some(seed_s);
        phase.done(&format!("{seed_s:.1} s"));
        Ok(expected)
    }
}
