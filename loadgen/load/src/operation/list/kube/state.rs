//! The initial state of a watch with `sendInitialEvents` (watch-list, KEP-3157).

use super::super::error::ListError;
use super::client::Kube;
use crate::verify::{Check, Listed, malformed};

impl Kube {
    /// Reads a watch up to the bookmark that ends its initial state, then cancels it.
    pub(super) async fn state(
        &mut self,
        mut check: Option<&mut Check>,
        on_objects: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let mut validator = self.events();
        let mut body = self.open("").await?;
        while validator.end.is_none() {
            let Some(bytes) = body.next().await? else {
                return Err(malformed("the watch ended before its state did").into());
            };
            let items = validator.items;
            validator.feed(&bytes, check.as_deref_mut())?;
            if validator.items > items {
                on_objects();
            }
        }
        let listed = Listed {
            revision: validator.end.unwrap_or_default(),
            chunks: validator.items,
            wire_bytes: body.wire_bytes(),
        };
        drop(body);
        self.connection.cancel();
        Ok(listed)
    }
}
