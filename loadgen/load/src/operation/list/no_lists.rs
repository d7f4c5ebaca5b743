//! `no-lists`: the cost of the servers without lists, with which cases that list now and then are
//! compared.

use async_trait::async_trait;

use super::error::ListError;
use super::list_client::ListClient;
use crate::verify::{Check, Listed};

#[derive(Debug)]
pub(super) struct NoLists;

#[async_trait]
impl ListClient for NoLists {
    fn shows_objects(&self) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        true
    }

    async fn list(
        &mut self,
        _: &mut Check,
        _: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        Ok(Listed::default())
    }

    async fn list_unchecked(&mut self) -> Result<(), ListError> {
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        Ok(())
    }
}
