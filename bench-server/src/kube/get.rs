//! GET of one object: from etcd, or from the cache when the client names a revision.

use etcd_api::kubernetes::GetOptions;
use kube_api::{ListOptions, Status, envelope, to_json};

use super::cache::fill::decode;
use super::figures::Operation;
use super::list::{Lister, storage_error};
use super::media::Encoding;
use super::object::Object;

impl Lister {
    /// The body of one object.
    ///
    /// # Errors
    /// 404 when there is none, 504 when the cache does not reach the revision asked for.
    pub async fn get(
        &self,
        namespace: &str,
        name: &str,
        options: &ListOptions,
        encoding: Encoding,
    ) -> Result<Vec<u8>, Status> {
        let key = format!("{namespace}/{name}");
        let object = match (options.revision()?, &self.cache) {
            (Some(revision), Some(cache)) => {
                let revision = revision as i64;
                let late = |current| {
                    Status::too_large_resource_version(revision as u64, current as u64, 1)
                };
                cache
                    .reach(revision)
                    .await
                    .map_err(late)?
                    .tree
                    .get(key.as_bytes())
                    .cloned()
            }
            _ => self.get_stored(&key).await?,
        };
        let object = object.ok_or_else(|| Status::not_found(self.resource.name, name))?;
        let resource = self.resource;
        Ok(match encoding {
            Encoding::Protobuf => {
                envelope::seal(resource.api_version, resource.kind, object.encoded())
            }
            Encoding::Json => {
                let mut out = Vec::with_capacity(2 * object.encoded().len());
                to_json(
                    resource.message,
                    object.encoded(),
                    &resource.json_head(),
                    &mut out,
                )
                .map_err(|error| Status::internal(error.to_string()))?;
                out.push(b'\n');
                out
            }
        })
    }

    async fn get_stored(&self, key: &str) -> Result<Option<Object>, Status> {
        let timed = self.figures.etcd_request(Operation::Get, self.resource);
        let whole = [&self.prefix[..], key.as_bytes()].concat();
        let found = self
            .backend
            .get(&whole, GetOptions::default())
            .await
            .map_err(storage_error)?;
        drop(timed);
        let Some(kv) = found.kv else { return Ok(None) };
        match decode(
            self.resource,
            key.as_bytes(),
            &kv.value,
            kv.mod_revision,
            &self.figures,
        ) {
            Some(object) => Ok(Some(object)),
            None => Err(Status::internal(format!(
                "stored value of {key} is no object"
            ))),
        }
    }
}
