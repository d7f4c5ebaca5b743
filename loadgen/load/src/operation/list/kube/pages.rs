//! Lists page by page, and the metadata of each page. A whole list is one page. A page without
//! items and with a token is valid, because what a server read for it may match no selector.

use super::super::error::ListError;
use super::client::Kube;
use crate::verify::{Check, InvalidResponse, Listed, malformed};

/// The `ListMeta` of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The revision of the list.
    pub(super) revision: i64,
    /// The token of the next page; empty at the end.
    pub(super) continue_token: String,
    /// The number of items after this page, if the server reports it.
    pub(super) remaining: Option<u64>,
    /// The shard that the page holds, as the server names it.
    pub(super) shard: Option<String>,
    /// The number of items in this page.
    pub(super) items: u64,
    /// The number of bytes of the text.
    pub(super) bytes: u64,
}

impl Page {
    /// Checks that the page holds the requested shard. A server that does not support shards sends
    /// everything.
    pub(super) fn check_shard(&self, requested: Option<&str>) -> Result<(), ListError> {
        match (requested, self.shard.as_deref()) {
            (Some(_), None) => Err(ListError::NotSharded),
            (requested, found) if requested == found => Ok(()),
            (requested, found) => Err(malformed(&format!(
                "its shardInfo is `{}`, requested was `{}`",
                found.unwrap_or_default(),
                requested.unwrap_or_default()
            ))
            .into()),
        }
    }

    /// Checks that the page is of the requested revision.
    pub(super) fn check_revision(&self, requested: Option<i64>) -> Result<(), InvalidResponse> {
        let found = self.revision;
        match requested {
            Some(requested) if requested != found => Err(malformed(&format!(
                "it is of revision {found}, and exactly {requested} was requested"
            ))),
            _ => Ok(()),
        }
    }

    /// Compares the page with what the page before announced.
    fn check_after(&self, before: &Self, is_counted: bool) -> Result<(), InvalidResponse> {
        if self.revision != before.revision {
            return Err(InvalidResponse::Malformed(format!(
                "a page of revision {} after one of {}",
                self.revision, before.revision
            )));
        }
        // The page would be requested forever.
        if self.continue_token == before.continue_token {
            return Err(malformed(
                "a page with the token that it was requested with",
            ));
        }
        let Some(announced) = before.remaining.filter(|_| is_counted) else {
            return Ok(());
        };
        let here = self.items + self.remaining.unwrap_or(0);
        if announced != here {
            return Err(InvalidResponse::Count {
                expected: announced,
                count: i64::try_from(here).unwrap_or(i64::MAX),
            });
        }
        Ok(())
    }
}

impl Kube {
    /// Reads all pages and passes their items to `check`, if there is one.
    pub(super) async fn pages(
        &mut self,
        mut check: Option<&mut Check>,
        on_objects: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let mut validator = self.validator();
        let mut listed = Listed::default();
        let mut token = String::new();
        let mut before: Option<Page> = None;
        loop {
            let mut body = self.open(&token).await?;
            while let Some(bytes) = body.next().await? {
                let items = validator.items();
                validator.feed(&bytes, check.as_deref_mut())?;
                if validator.items() > items {
                    on_objects();
                }
            }
            let page = validator.next_page(check.is_some())?;
            page.check_shard(self.shard.as_deref())?;
            page.check_revision(self.revision)?;
            match &before {
                Some(before) => page.check_after(before, check.is_some())?,
                None => listed.revision = page.revision,
            }
            listed.chunks += 1;
            listed.wire_bytes += body.wire_bytes();
            if page.continue_token.is_empty() {
                return Ok(listed);
            }
            token.clone_from(&page.continue_token);
            before = Some(page);
        }
    }
}
