//! Lists of exactly one revision, and the server's current revision.

use super::super::error::ListError;
use super::client::Kube;
use super::protobuf::ProtobufValidator;
use super::request::exactly;
use super::stored_bytes::Sink;

impl Kube {
    /// Returns the server's current revision, which is that of a consistent list with a limit of
    /// one.
    pub(in crate::operation) async fn current_revision(&mut self) -> Result<i64, ListError> {
        let mut body = self.get("limit=1".to_owned()).await?;
        let mut validator = self.validator();
        while let Some(bytes) = body.next().await? {
            validator.feed(&bytes, None)?;
        }
        let page = validator.next_page(false)?;
        page.check_shard(self.shard.as_deref())?;
        Ok(page.revision)
    }

    /// Makes the following lists read exactly this revision.
    pub(super) fn ask_exactly(&mut self, revision: i64) {
        self.query = exactly(revision);
        self.revision = Some(revision);
    }

    /// Lists exactly this revision and passes its objects to `sink`. Returns the number of bytes
    /// received.
    pub(in crate::operation) async fn list_exactly(
        &mut self,
        revision: i64,
        sink: &mut impl Sink,
    ) -> Result<u64, ListError> {
        let mut validator = ProtobufValidator::new(self.decoder());
        let mut body = self.get(exactly(revision)).await?;
        while let Some(bytes) = body.next().await? {
            validator.feed(&bytes, Some(&mut *sink))?;
        }
        let page = validator.next_page()?;
        page.check_shard(self.shard.as_deref())?;
        page.check_revision(Some(revision))?;
        Ok(body.wire_bytes())
    }
}
