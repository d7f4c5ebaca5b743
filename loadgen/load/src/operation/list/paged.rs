//! `paged:N` on the etcd tier: Range with a limit. Each page starts after the last key, and all
//! pages have the first page's revision, as when kube-apiserver pages.

use async_trait::async_trait;
use bytes::Bytes;
use etcd_api::client::list_validator::{ListSummary, Object};
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::proto::etcdserverpb::RangeRequest;

use super::chunk;
use super::error::ListError;
use super::list_client::ListClient;
use crate::verify::{Check, InvalidResponse, Listed};

#[derive(Debug)]
pub(super) struct Paged {
    connection: RawConnection,
    first_page: RangeRequest,
    cluster_id: Option<u64>,
}

impl Paged {
    pub(super) fn new(connection: RawConnection, prefix: &str, page_size: u32) -> Self {
        Self {
            connection,
            first_page: RangeRequest {
                limit: i64::from(page_size),
                ..chunk::whole(prefix)
            },
            cluster_id: None,
        }
    }

    /// Reads every page with `visit`, and checks the metadata of each and the number of keys that
    /// remain.
    async fn pages(
        &mut self,
        mut visit: impl FnMut(Object<'_>) + Send,
        on_objects: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let mut request = self.first_page.clone();
        let mut listed = Listed::default();
        let mut remaining = None;
        loop {
            let mut last_key = Vec::new();
            let mut keep_last = |object: Object<'_>| {
                last_key.clear();
                last_key.extend_from_slice(object.key);
                visit(object);
            };
            let connection = &self.connection;
            let received =
                connection.validate(ListRpc::Range, &request, &mut keep_last, &mut *on_objects);
            let page = received.await?;
            chunk::check_response(&page, &mut self.cluster_id)?;
            // The header has the store's current revision, which may have grown since the first
            // page.
            if page.revision < listed.revision {
                return Err(InvalidResponse::Stale {
                    found: page.revision,
                    at_least: listed.revision,
                }
                .into());
            }
            remaining = Some(check_page(&page, remaining)?);
            if listed.chunks == 0 {
                listed.revision = page.revision;
                request.revision = page.revision;
            }
            listed.chunks += 1;
            listed.wire_bytes += page.bytes;
            if !page.more {
                return Ok(listed);
            }
            last_key.push(0);
            request.key = Bytes::from(last_key);
        }
    }
}

/// Compares a page with the number of keys that remained before it, and returns how many remain
/// after it.
fn check_page(page: &ListSummary, before: Option<u64>) -> Result<u64, InvalidResponse> {
    let here = match before {
        Some(expected) => {
            chunk::check_count(expected, page.count)?;
            expected
        }
        None => u64::try_from(page.count).unwrap_or(0),
    };
    let left = here
        .checked_sub(page.objects)
        .ok_or(InvalidResponse::Count {
            expected: page.objects,
            count: page.count,
        })?;
    // A page without objects that announces more would be requested forever.
    if page.more != (left > 0) || (page.more && page.objects == 0) {
        return Err(InvalidResponse::More {
            more: page.more,
            left,
        });
    }
    Ok(left)
}

#[async_trait]
impl ListClient for Paged {
    async fn list(
        &mut self,
        check: &mut Check,
        on_objects: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let visit = |object: Object<'_>| chunk::visit(check, &object);
        let listed = self.pages(visit, on_objects).await;
        listed.map_err(|error| match error {
            ListError::Invalid(wrong) => check.naming(wrong).into(),
            other => other,
        })
    }

    /// Keys must be parsed to request the next page; only hashing is left out.
    async fn list_unchecked(&mut self) -> Result<(), ListError> {
        self.pages(|_| {}, &mut || {}).await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        chunk::first_object(&self.connection, ListRpc::Range, &self.first_page).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(objects: u64, count: i64, more: bool) -> ListSummary {
        ListSummary {
            objects,
            count,
            more,
            revision: 1,
            ..ListSummary::default()
        }
    }

    #[test]
    fn pages_account_for_everything() {
        assert_eq!(check_page(&page(500, 1200, true), None), Ok(700));
        assert_eq!(check_page(&page(500, 700, true), Some(700)), Ok(200));
        assert_eq!(check_page(&page(200, 200, false), Some(200)), Ok(0));
    }

    #[test]
    fn a_page_that_contradicts_the_one_before_is_wrong() {
        let cases = [
            (page(500, 699, true), Some(700)),
            (page(500, 1200, false), None),
            (page(200, 200, true), Some(200)),
            (page(0, 200, true), Some(200)),
            (page(201, 200, false), Some(200)),
        ];
        for (page, before) in cases {
            assert!(
                check_page(&page, before).is_err(),
                "{page:?} after {before:?}"
            );
        }
    }
}
