//! Lists of exactly one revision, and the revision that the server is at.

use super::protobuf::ProtobufWalker;
use super::request::exactly;
use super::restore::Sink;
use super::{Kube, ListError, not_a_list};

impl Kube {
    /// The revision that the server is at: what a consistent list of one object says.
    pub(super) async fn current_revision(&mut self) -> Result<i64, ListError> {
        let mut body = self.get("limit=1".to_owned()).await?;
        let mut walker = self.walker();
        while let Some(bytes) = body.next().await? {
            walker.feed(&bytes, None)?;
        }
        let page = walker.next_page(false)?;
        page.check_shard(self.shard.as_deref())?;
        Ok(page.revision)
    }

    /// Lists the state of exactly this revision, showing its objects to `sink`. Answers the bytes received.
    pub(super) async fn list_exactly(
        &mut self,
        revision: i64,
        sink: &mut impl Sink,
    ) -> Result<u64, ListError> {
        let mut walker = ProtobufWalker::new(self.restore());
        let mut body = self.get(exactly(revision)).await?;
        while let Some(bytes) = body.next().await? {
            walker.feed(&bytes, Some(&mut *sink))?;
        }
        let page = walker.next_page()?;
        page.check_shard(self.shard.as_deref())?;
        if page.revision != revision {
            let found = page.revision;
            let why = format!("it is of revision {found}, and exactly {revision} was asked for");
            return Err(not_a_list(&why).into());
        }
        Ok(body.wire_bytes())
    }
}
