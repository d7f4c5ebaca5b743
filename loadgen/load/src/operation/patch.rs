//! Changes objects through the API with one merge patch each, of an annotation. Watchers must
//! receive the object in the server's response.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use kube_api::client::{expect_success, read_whole};
use kube_api::envelope::{self, MEDIA_TYPE};
use kube_api::media_type::MERGE_PATCH;
use serde_json::json;

use super::list::kube::client::Kube;
use super::list::kube::frames::LONGEST_FRAME;
use super::list::kube::stored_bytes::ItemDecoder;
use super::list::{ListCase, ListError};
use super::watch_worker::HeldObject;
use crate::endpoint::TargetEndpoint;
use crate::verify::malformed;

/// The annotation that is patched.
const ANNOTATION: &str = "loadgen.test/change";

/// A client that patches, with a connection of its own.
#[derive(Debug)]
pub struct Patcher {
    kube: Kube,
    decoder: ItemDecoder,
}

impl Patcher {
    /// Connects a client for the case's objects.
    ///
    /// # Errors
    /// [`ListError`] when the server cannot be reached.
    pub async fn connect(case: &ListCase, endpoint: &TargetEndpoint) -> Result<Self, ListError> {
        let kube = Kube::connect(case, endpoint).await?;
        let decoder = kube.decoder();
        Ok(Self { kube, decoder })
    }

    /// Sets the annotation of `namespace/name`. Returns the hash of the object's key, and the
    /// changed object.
    ///
    /// # Errors
    /// [`ListError`] when the server refuses, or responds with anything else than the object with
    /// that annotation.
    pub async fn patch(
        &mut self,
        place: &str,
        value: &str,
    ) -> Result<(u64, HeldObject), ListError> {
        let (namespace, name) = place.split_once('/').unwrap_or_default();
        let path = self.kube.resource.name.object(namespace, name);
        let mut headers = HeaderMap::new();
        let content = HeaderValue::from_static(MERGE_PATCH);
        headers.insert(header::CONTENT_TYPE, content);
        headers.insert(header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
        let patch = json!({"metadata": {"annotations": {ANNOTATION: value}}});
        let body = Bytes::from(patch.to_string());
        let connection = &mut self.kube.connection;
        let response = connection.send(Method::PATCH, &path, headers, body).await?;
        let response = expect_success(Method::PATCH, &path, response).await?;
        let bytes = read_whole(response.into_body(), LONGEST_FRAME).await?;
        let object = envelope::open(&bytes).map_err(|e| malformed(&e.to_string()))?;
        if memchr::memmem::find(object, value.as_bytes()).is_none() {
            let why = format!("{place} does not have what it was patched with");
            return Err(malformed(&why).into());
        }
        let stored = self.decoder.event(object)?;
        let stored = stored.ok_or_else(|| malformed("an object of another shard"))?;
        Ok(HeldObject::of(&stored)?)
    }
}
