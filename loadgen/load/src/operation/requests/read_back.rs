//! Reads the objects before and after the requests.

use std::sync::atomic::Ordering;

use etcd_api::client::config::ClientConfig;
use etcd_api::client::pipelined::{Completion, PipelinedConnection, Rpc, parse_range_response};
use etcd_api::proto::etcdserverpb::RangeRequest;
use workloads::SmallRequest;

use super::{CallError, EtcdRequests};

/// The number of outstanding requests while objects are read.
const CONCURRENT_READS: usize = 100;

impl EtcdRequests {
    /// Returns whether updates compare with a revision that must be read first.
    #[must_use]
    pub fn compares(&self) -> bool {
        self.mix.requests().any(|r| r == SmallRequest::Update)
    }

    /// Reads the revision of every object, which a client that updates has in its cache. Costs one
    /// request per object. The caller must bound the time.
    ///
    /// # Errors
    /// The first [`CallError`] of an object that does not exist or cannot be read.
    pub async fn learn(&self, config: &ClientConfig) -> Result<(), CallError> {
        let all: Vec<usize> = (0..self.objects.len()).collect();
        let keys_only = |object: usize| RangeRequest {
            keys_only: true,
            ..self.objects[object].get.clone()
        };
        let seen = |object: usize, done: Completion<'_>| {
            let response = parse_range_response(done.response?).ok_or(CallError::Malformed)?;
            let found = response.object.ok_or_else(|| CallError::Altered {
                key: self.key(object),
            })?;
            let seen = &self.objects[object].seen;
            seen.fetch_max(found.mod_revision, Ordering::Relaxed);
            self.revisions.observe(object, found.mod_revision);
            Ok(())
        };
        read_each(config, &all, keys_only, seen).await
    }

    /// Reads every object that any load of the case has written, and checks that it is at least as
    /// new as its latest acknowledged write. Costs one request per object. The caller must bound
    /// the time.
    ///
    /// # Errors
    /// The first [`CallError`] of an object that is older or cannot be read.
    pub async fn read_back(&self, config: &ClientConfig) -> Result<(), CallError> {
        let written: Vec<usize> = (0..self.objects.len())
            .filter(|&object| self.revisions.written(object) > 0)
            .collect();
        let get = |object: usize| self.objects[object].get.clone();
        let check = |object, done: Completion<'_>| self.check_written(object, done);
        read_each(config, &written, get, check).await
    }

    fn check_written(&self, object: usize, done: Completion<'_>) -> Result<(), CallError> {
        let acknowledged = self.revisions.written(object);
        let found = self.read(object, done.response?)?;
        match found < acknowledged {
            true => Err(CallError::Lost {
                key: self.key(object),
                acknowledged,
                found,
            }),
            false => Ok(()),
        }
    }
}

/// Requests objects, many at a time, and checks each response with `check`.
async fn read_each(
    config: &ClientConfig,
    objects: &[usize],
    request: impl Fn(usize) -> RangeRequest,
    check: impl Fn(usize, Completion<'_>) -> Result<(), CallError>,
) -> Result<(), CallError> {
    let mut connection = PipelinedConnection::connect(config, None).await?;
    for objects in objects.chunks(CONCURRENT_READS) {
        for &object in objects {
            connection.send(Rpc::Range, &request(object), object as u64)?;
        }
        let mut checked = Ok(());
        while connection.outstanding() > 0 {
            let check = &mut |done: Completion<'_>| {
                if checked.is_ok() {
                    checked = check(done.token as usize, done);
                }
            };
            connection.drive(check).await?;
        }
        checked?;
    }
    Ok(())
}
