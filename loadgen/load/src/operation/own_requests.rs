//! Requests for a connection's own keys and leases, and the checks of their responses.

use bytes::Bytes;
use etcd_api::client::pipelined::{PipelinedConnection, Rpc};
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
};
use prost::Message as _;
use twox_hash::XxHash3_64;
use workloads::SmallRequest;

use super::own_keys::OwnKey;
use super::requests::{CallError, Checked};
use super::transactions;

/// The time to live of leases, which is longer than any case. On an endpoint that outlives the run,
/// leases are revoked afterwards, or expire if the run was killed.
pub(super) const TTL_S: i64 = 3_600;

/// Sends the request for key or lease `key` of those below `root`. A created key holds `value`.
///
/// # Errors
/// The error of a connection that has ended.
pub(super) fn send(
    connection: &mut PipelinedConnection,
    key: OwnKey,
    root: &str,
    value: impl FnOnce() -> Bytes,
    token: u64,
) -> Result<(), EtcdError> {
    let name = |number| name(root, number);
    match key.request {
        SmallRequest::LeaseGrant => {
            let request = LeaseGrantRequest {
                ttl: TTL_S,
                id: lease(root, key.number),
            };
            connection.send(Rpc::LeaseGrant, &request, token)
        }
        SmallRequest::LeaseKeepAlive => {
            let request = LeaseKeepAliveRequest {
                id: lease(root, key.number),
            };
            connection.send(Rpc::LeaseKeepAlive, &request, token)
        }
        SmallRequest::LeaseRevoke => {
            let request = LeaseRevokeRequest {
                id: lease(root, key.number),
            };
            connection.send(Rpc::LeaseRevoke, &request, token)
        }
        SmallRequest::DeleteRange => {
            let request = DeleteRangeRequest {
                key: name(key.number).into(),
                range_end: name(key.number + key.count).into(),
                ..DeleteRangeRequest::default()
            };
            connection.send(Rpc::DeleteRange, &request, token)
        }
        SmallRequest::Delete => {
            let request = transactions::delete(name(key.number).into(), key.revision);
            connection.send(Rpc::Txn, &request, token)
        }
        _ => {
            let request = transactions::create(name(key.number).into(), value());
            connection.send(Rpc::Txn, &request, token)
        }
    }
}

/// Checks a response: what was created did not exist before, and what was deleted did.
///
/// # Errors
/// A [`CallError`] when the response is wrong.
pub(super) fn check(key: OwnKey, root: &str, message: &[u8]) -> Result<Checked, CallError> {
    let conflict = Ok(Checked::conflict());
    let made = |revision: i64| {
        Ok(Checked {
            // A lease has no revision. Any number except 0 means that it exists.
            created_at: Some(revision.max(1)),
            ..Checked::default()
        })
    };
    let refused = |found| {
        Err(CallError::Refused {
            request: key.request,
            key: name(root, key.number),
            found,
        })
    };
    let malformed = |_| CallError::Malformed;
    match key.request {
        SmallRequest::LeaseGrant => {
            let response = LeaseGrantResponse::decode(message).map_err(malformed)?;
            match response.id == lease(root, key.number) && response.ttl >= TTL_S {
                true => made(1),
                false => refused(0),
            }
        }
        SmallRequest::LeaseKeepAlive => {
            let response = LeaseKeepAliveResponse::decode(message).map_err(malformed)?;
            match (response.ttl > 0, key.revision) {
                (true, _) => Ok(Checked::default()),
                // The response to the grant had not been received yet.
                (false, 0) => conflict,
                (false, _) => refused(0),
            }
        }
        SmallRequest::LeaseRevoke => Ok(Checked::default()),
        SmallRequest::DeleteRange => {
            let response = DeleteRangeResponse::decode(message).map_err(malformed)?;
            let deleted = response.deleted.cast_unsigned();
            let is_right = match key.revision {
                // Some keys may not have existed yet.
                0 => deleted <= key.count,
                _ => deleted == key.count,
            };
            match is_right {
                true => Ok(Checked::default()),
                false => Err(CallError::Deleted {
                    key: name(root, key.number),
                    deleted,
                    there: key.count,
                }),
            }
        }
        _ => {
            let outcome = transactions::outcome(message).ok_or(CallError::Malformed)?;
            match (outcome.succeeded, key.request) {
                (true, SmallRequest::Create) => made(outcome.revision),
                (true, _) => Ok(Checked::default()),
                // The deletion arrived before the server had created the key.
                (false, SmallRequest::Delete) if key.revision == 0 => conflict,
                (false, _) => refused(outcome.found),
            }
        }
    }
}

fn name(root: &str, number: u64) -> String {
    format!("{root}{number:010}")
}

/// Returns the id of a lease: above 0, and different for each root and number.
pub(super) fn lease(root: &str, number: u64) -> i64 {
    let hash = XxHash3_64::oneshot(name(root, number).as_bytes());
    (hash >> 1).cast_signed().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(request: SmallRequest, revision: i64) -> OwnKey {
        OwnKey {
            request,
            number: 3,
            count: if request == SmallRequest::DeleteRange {
                10
            } else {
                1
            },
            revision,
        }
    }

    #[test]
    fn a_lease_that_is_known_must_be_alive() {
        let response = |ttl| {
            let response = LeaseKeepAliveResponse {
                ttl,
                ..LeaseKeepAliveResponse::default()
            };
            response.encode_to_vec()
        };
        let alive = |revision, ttl| {
            let key = key(SmallRequest::LeaseKeepAlive, revision);
            check(key, "/own/0/", &response(ttl))
        };
        assert!(matches!(alive(1, 60), Ok(checked) if !checked.conflict));
        assert!(matches!(alive(0, 0), Ok(checked) if checked.conflict));
        let gone = alive(1, 0).expect_err("it was granted");
        assert!(gone.to_string().contains("lease-keep-alive"), "{gone}");
    }

    #[test]
    fn a_range_deletes_what_was_there() {
        let deleted = |revision, deleted| {
            let response = DeleteRangeResponse {
                deleted,
                ..DeleteRangeResponse::default()
            };
            let key = key(SmallRequest::DeleteRange, revision);
            check(key, "/own/0/", &response.encode_to_vec())
        };
        assert!(deleted(5, 10).is_ok() && deleted(0, 7).is_ok());
        let wrong = deleted(5, 9).expect_err("ten were there").to_string();
        assert!(
            wrong.contains("/own/0/0000000003") && wrong.contains("9"),
            "{wrong}"
        );
        assert!(deleted(0, 11).is_err());
    }

    #[test]
    fn leases_have_ids_of_their_own() {
        let ids: std::collections::HashSet<i64> = (0..1_000)
            .flat_map(|number| [lease("/own/0/", number), lease("/own/1/", number)])
            .collect();
        assert_eq!(ids.len(), 2_000);
        assert!(ids.iter().all(|id| *id > 0));
    }
}
