//! Small requests to the Kubernetes tier, and the objects for them, which are created beforehand.

use load::operation::kube_requests::{KubeRequestConfig, KubeRequests, made_by};
use tokio::time::timeout;
use workloads::scenario::{LoadSpec, LoadsSpec};
use workloads::{DataSet, Mix};

use super::connect::{Connector, Planned};
use crate::run::case::requests::READ_BACK_TIMEOUT;
use crate::run::case::{CaseRun, ObjectSource};
use crate::seed::kube::{kind_of, objects_like, spread_over};

/// The most objects for a load, since each of them is created beforehand, by a request.
const OBJECTS: u64 = 1_000;
/// The most bytes of those objects. The generator keeps each object as the server last sent it.
const OBJECT_BYTES: u64 = 64 << 20;
/// The most objects of the data set that serve as templates.
const LIKE: u64 = 64;

impl Connector<'_> {
    /// Creates a load's objects. Returns its requests.
    pub(super) async fn through_api(
        &self,
        mix: &Mix,
        load: &Planned<'_>,
    ) -> Result<KubeRequests, String> {
        let (run, data, spec) = (self.run, self.data, load.spec);
        let templates = data.len().min(LIKE);
        let like = objects_like(data, templates, |i| run.namespace_of(data, i))?;
        let sizes = spread_over(data, templates).map(|i| data.value_len(i) as u64);
        let fitting = OBJECT_BYTES * templates / sizes.sum::<u64>().max(1);
        let objects = data.len().min(OBJECTS).min(fitting.max(1));
        let about = KubeRequestConfig {
            resource: data.prefix().trim_end_matches('/'),
            kind: kind_of(data),
            like,
            objects,
            made: made_by(&run.plan.run_id),
            load: run.name_of_load(self.case, spec),
            keys: spec.keys.unwrap_or_default(),
            seed: load.seed,
            values: spec.value.as_ref(),
        };
        let mut calls = KubeRequests::new(mix.clone(), about);
        if self.case.is_watched() {
            calls = calls.keeping_writes();
        }
        let made = timeout(READ_BACK_TIMEOUT, calls.make(self.endpoint)).await;
        let made = made.map_err(|_| format!("objects were not made within {READ_BACK_TIMEOUT:?}"));
        made?.map_err(|error| format!("making its objects: {error}"))?;
        Ok(calls)
    }
}

impl CaseRun<'_> {
    /// Returns the name that distinguishes a load's objects from those of the run's other loads. It
    /// leaves out the target where several generators produce a load together: they have one
    /// target, but each may use another name for it.
    fn name_of_load(&self, case: &LoadsSpec, load: &LoadSpec) -> String {
        let of_case = format!("{}/{}", case.name, load.name);
        match self.shard().is_whole() {
            true => format!("{}/{of_case}", self.target.name),
            false => of_case,
        }
    }

    /// Returns the namespace that object `i` of the data set is in.
    fn namespace_of(&self, data: &DataSet, i: u64) -> String {
        if let ObjectSource::SeededNamespaces(loaded) = &self.source {
            return loaded.namespace_of(i).to_owned();
        }
        let key = String::from_utf8_lossy(&data.key(i)).into_owned();
        key.split('/').nth(1).unwrap_or_default().to_owned()
    }
}
