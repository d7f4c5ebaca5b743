//! Decides whether an existing endpoint may be written to, so that other people's data is never at
//! risk.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::error::Error as EtcdError;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::{RangeRequest, StatusRequest};
use workloads::DataSet;

/// The assumed quota of a server that does not report it (before etcd 3.6), in bytes: etcd's
/// default.
const ASSUMED_QUOTA_BYTES: u64 = 2 << 30;
/// The fullest that seeding may make a database, in percent of its quota.
const FULL_PERCENT: u64 = 60;
/// The bytes that etcd's quota counts for a put besides key and value.
const PUT_OVERHEAD_BYTES: u64 = 256;

/// The state of an endpoint before anything is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The number of all its keys.
    pub keys: u64,
    /// The size of the database file, in bytes.
    pub database_bytes: u64,
    /// The database size at which writes are refused, in bytes; assumed if it is not reported.
    pub quota_bytes: u64,
    /// Whether the quota is assumed.
    pub quota_assumed: bool,
}

/// The reason why nothing may be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The endpoint holds keys.
    #[error(
        "the endpoint holds {0} keys: it is only read; list what is there with --prefix PREFIX, or allow writing under a prefix of our own with --seed-data"
    )]
    HoldsKeys(u64),
    /// The endpoint holds keys, and several generators are to load it.
    #[error(
        "the endpoint holds {0} keys: several generators together (--shard) load only an etcd that holds none"
    )]
    NotEmpty(u64),
    /// The database would become too full.
    #[error(
        "seeding adds {added} bytes to a database of {database} bytes: more than {FULL_PERCENT} % of its quota of {quota} bytes{}; at most --objects {fitting} fit",
        if *.assumed { " (assumed, the server does not say)" } else { "" }
    )]
    Quota {
        /// The bytes that seeding would add.
        added: u64,
        /// The size of the database, in bytes.
        database: u64,
        /// The quota, in bytes.
        quota: u64,
        /// Whether the quota is assumed.
        assumed: bool,
        /// The number of objects that would fit.
        fitting: u64,
    },
    /// There are keys below the run's own prefix.
    #[error("{keys} keys are already below `{prefix}`: of another run, or other data")]
    PrefixInUse {
        /// The prefix.
        prefix: String,
        /// The number of keys below it.
        keys: u64,
    },
}

impl Survey {
    /// Reads the state of an endpoint; writes nothing.
    ///
    /// # Errors
    /// If it does not respond.
    pub async fn take(client: &Client) -> Result<Self, EtcdError> {
        let status = client.maintenance().status(StatusRequest {}).await?;
        let status = status.into_inner();
        let quota = u64::try_from(status.db_size_quota).unwrap_or(0);
        Ok(Self {
            keys: count(client, b"").await?,
            database_bytes: u64::try_from(status.db_size).unwrap_or(0),
            quota_bytes: if quota == 0 {
                ASSUMED_QUOTA_BYTES
            } else {
                quota
            },
            quota_assumed: quota == 0,
        })
    }

    /// Checks that a data set may be written.
    ///
    /// # Errors
    /// [`Refused`] with the numbers that decided.
    pub fn may_seed(&self, allowed: bool, data: &DataSet, root: &str) -> Result<(), Refused> {
        if self.keys > 0 && !allowed {
            return Err(Refused::HoldsKeys(self.keys));
        }
        let added = stored_bytes(data, root);
        let room = (self.quota_bytes / 100 * FULL_PERCENT).saturating_sub(self.database_bytes);
        if added > room {
            let per_object = (added / data.len()).max(1);
            return Err(Refused::Quota {
                added,
                database: self.database_bytes,
                quota: self.quota_bytes,
                assumed: self.quota_assumed,
                fitting: room / per_object,
            });
        }
        Ok(())
    }
}

/// Checks that there is no key below a prefix.
///
/// # Errors
/// The inner error is [`Refused::PrefixInUse`]; the outer one is [`EtcdError`], if the endpoint
/// does not respond.
pub async fn must_be_empty(
    client: &Client,
    prefix: &str,
) -> Result<Result<(), Refused>, EtcdError> {
    Ok(match count(client, prefix.as_bytes()).await? {
        0 => Ok(()),
        keys => Err(Refused::PrefixInUse {
            prefix: prefix.to_owned(),
            keys,
        }),
    })
}

/// Returns the bytes that a data set takes in a database, as etcd's quota counts them.
#[must_use]
pub fn stored_bytes(data: &DataSet, root: &str) -> u64 {
    // Of objects of nearly one size a small sample is enough. Where sizes differ, a large one has
    // some of those that are rare.
    let enough = match data.spec().object_sizes {
        None => 1_000,
        Some(_) => 100_000,
    };
    let sample = data.len().min(enough);
    let step = data.len() / sample;
    let of_sample: u64 = (0..sample)
        .map(|i| {
            let i = i * step;
            (root.len() + data.key(i).len() + data.value_len(i)) as u64 + PUT_OVERHEAD_BYTES
        })
        .sum();
    of_sample / sample * data.len()
}

/// Returns a line about what remains when the keys have been deleted again.
#[must_use]
pub fn left_behind(deleted: u64, bytes: u64) -> String {
    format!(
        "{deleted} keys deleted; about {} MiB stay in the database file until someone compacts and defragments it (we never do)",
        bytes >> 20
    )
}

/// Returns the number of keys with a prefix.
pub(crate) async fn count(client: &Client, prefix: &[u8]) -> Result<u64, EtcdError> {
    let request = RangeRequest {
        key: Bytes::copy_from_slice(if prefix.is_empty() { b"\0" } else { prefix }),
        range_end: prefix_end(prefix).into(),
        count_only: true,
        ..RangeRequest::default()
    };
    let response = client.kv().range(request).await?.into_inner();
    Ok(u64::try_from(response.count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use workloads::{DataSetSpec, Kind};

    use super::*;

    fn data(objects: u64, size: u64) -> DataSet {
        DataSet::new(&DataSetSpec {
            name: "test".to_owned(),
            kind: Kind::Raw,
            objects: NonZeroU64::new(objects).expect("some objects"),
            object_size: NonZeroU64::new(size),
            object_sizes: None,
            namespaces: None,
            nodes: None,
            seed: 1,
        })
    }

    fn survey(keys: u64, database_bytes: u64) -> Survey {
        Survey {
            keys,
            database_bytes,
            quota_bytes: ASSUMED_QUOTA_BYTES,
            quota_assumed: true,
        }
    }

    #[test]
    fn an_endpoint_with_keys_is_only_read() {
        let data = data(10, 100);
        assert_eq!(
            survey(3, 0).may_seed(false, &data, "/p/"),
            Err(Refused::HoldsKeys(3))
        );
        assert_eq!(survey(3, 0).may_seed(true, &data, "/p/"), Ok(()));
        assert_eq!(survey(0, 0).may_seed(false, &data, "/p/"), Ok(()));
    }

    #[test]
    fn a_database_is_not_filled_beyond_its_quota() {
        let data = data(10_000, 100_000);
        assert_eq!(survey(0, 0).may_seed(false, &data, "/p/"), Ok(()));
        let full = survey(0, 1 << 30).may_seed(false, &data, "/p/");
        match full {
            Err(Refused::Quota {
                fitting, assumed, ..
            }) => {
                assert!(
                    assumed && fitting > 2_000 && fitting < 2_200,
                    "{fitting} fit"
                );
            }
            other => panic!("1 GB onto 1 GiB of 2 GiB is more than 60 %: {other:?}"),
        }
    }
}
