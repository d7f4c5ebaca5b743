//! Requests and checks that the strategies of the etcd tier share, and a call that is cancelled
//! after its first object.

use bytes::Bytes;
use etcd_api::client::list_validator::{ListSummary, ListValidator, Object};
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::RangeRequest;

use super::error::ListError;
use crate::verify::{Check, History, InvalidResponse};

/// Returns the Range request for a whole prefix.
pub(super) fn whole(prefix: &str) -> RangeRequest {
    RangeRequest {
        key: Bytes::copy_from_slice(if prefix.is_empty() {
            b"\0"
        } else {
            prefix.as_bytes()
        }),
        range_end: prefix_end(prefix.as_bytes()).into(),
        ..RangeRequest::default()
    }
}

/// Passes an object and its history to `check`.
pub(super) fn visit(check: &mut Check, object: &Object<'_>) {
    check.visit(object.key, object.value, object.mod_revision);
    let history = History {
        created: object.create_revision,
        modified: object.mod_revision,
        version: object.version,
        lease: object.lease,
    };
    check.note_history(object.key, history);
    if object.is_irregular {
        check.note_irregular(object.key);
    }
}

/// Checks the metadata of a response, and that it comes from the same cluster as the one before.
pub(super) fn check_response(
    summary: &ListSummary,
    cluster_id: &mut Option<u64>,
) -> Result<(), InvalidResponse> {
    if summary.irregular > 0 {
        return Err(InvalidResponse::Irregular {
            count: summary.irregular,
            first: None,
        });
    }
    if summary.header_message != summary.messages {
        return Err(InvalidResponse::BehindHeader(
            summary.messages - summary.header_message,
        ));
    }
    let found = summary.header.cluster_id;
    match cluster_id.replace(found) {
        Some(before) if before != found => Err(InvalidResponse::Cluster { before, found }),
        _ => Ok(()),
    }
}

/// Checks the metadata of a list that was not truncated.
pub(super) fn check_whole(summary: &ListSummary) -> Result<(), InvalidResponse> {
    if summary.more {
        return Err(InvalidResponse::Cut);
    }
    check_count(summary.objects, summary.count)
}

/// Compares a response's count with the number of objects received.
pub(super) fn check_count(expected: u64, count: i64) -> Result<(), InvalidResponse> {
    if u64::try_from(count) == Ok(expected) {
        return Ok(());
    }
    Err(InvalidResponse::Count { expected, count })
}

/// Runs one call until its first object arrives, then resets the stream.
pub(super) async fn first_object(
    connection: &RawConnection,
    rpc: ListRpc,
    request: &RangeRequest,
) -> Result<(), ListError> {
    let mut list = connection.open(rpc, request).await?;
    let mut validator = ListValidator::new(rpc);
    let mut ignore = |_: Object<'_>| {};
    while let Some(frame) = list.data().await? {
        validator
            .feed(&frame, &mut ignore)
            .map_err(etcd_api::error::Error::from)?;
        if validator.so_far().objects > 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use etcd_api::client::list_validator::Header;

    use super::*;

    #[test]
    fn the_first_object_with_fields_that_etcd_does_not_send_is_named() {
        let mut check = Check::new("/r/");
        let (count, first) = (2, None);
        let unnamed = InvalidResponse::Irregular { count, first };
        assert_eq!(check.naming(unnamed.clone()), unnamed, "of messages alone");
        for (key, is_irregular) in [(b"/r/a", false), (b"/r/b", true), (b"/r/c", true)] {
            let object = Object {
                key,
                value: b"",
                mod_revision: 1,
                create_revision: 1,
                version: 1,
                lease: 0,
                is_irregular,
            };
            visit(&mut check, &object);
        }
        let named = check.naming(unnamed).to_string();
        assert!(named.ends_with("(the first is `/r/b`)"), "{named}");
    }

    #[test]
    fn a_response_that_no_etcd_sends_is_wrong() {
        let good = ListSummary {
            messages: 3,
            header_message: 3,
            header: Header {
                cluster_id: 7,
                ..Header::default()
            },
            ..ListSummary::default()
        };
        let mut cluster_id = None;
        assert_eq!(check_response(&good, &mut cluster_id), Ok(()));
        assert_eq!(check_response(&good, &mut cluster_id), Ok(()));
        let irregular = ListSummary {
            irregular: 2,
            ..good
        };
        let behind = ListSummary {
            messages: 4,
            ..good
        };
        let mut elsewhere = good;
        elsewhere.header.cluster_id = 8;
        let (before, found) = (7, 8);
        let (count, first) = (2, None);
        for (response, wrong) in [
            (irregular, InvalidResponse::Irregular { count, first }),
            (behind, InvalidResponse::BehindHeader(1)),
            (elsewhere, InvalidResponse::Cluster { before, found }),
        ] {
            assert_eq!(check_response(&response, &mut cluster_id), Err(wrong));
        }
    }
}
