//! `read-your-write`: writes one ConfigMap to etcd, and then lists it through the Kubernetes tier
//! with resourceVersion unset. The list must contain what was written. The write bypasses the tier,
//! so nothing but its own check tells the tier's cache that it is behind (KEP-2340).

use async_trait::async_trait;
use etcd_api::client::Client;
use etcd_api::proto::etcdserverpb::PutRequest;
use kube_api::ApiResource;
use workloads::{DataSet, DataSetSpec, Kind};

use super::super::error::ListError;
use super::super::list_client::ListClient;
use super::client::Kube;
use super::stored_bytes::ROOT;
use crate::verify::{Check, Expected, InvalidResponse, Listed};

/// The size of the object in bytes.
const OBJECT_BYTES: u64 = 1_000;
/// The seed of the object. The built-in scenarios use others, so its namespace differs from theirs.
const SEED: u64 = 4_711;

#[derive(Debug)]
pub(super) struct ReadYourWrite {
    kube: Kube,
    etcd: Client,
    data: DataSet,
    /// The revision of the latest write.
    written: i64,
}

impl ReadYourWrite {
    /// Returns a client that writes through `etcd` and lists through `kube`.
    pub(super) fn new(mut kube: Kube, etcd: Client) -> Self {
        let data = DataSet::new(&DataSetSpec {
            name: "read-your-write".to_owned(),
            kind: Kind::ConfigMaps,
            objects: 1.try_into().expect("one object"),
            object_size: OBJECT_BYTES.try_into().ok(),
            object_sizes: None,
            namespaces: 1.try_into().ok(),
            nodes: None,
            seed: SEED,
        });
        let key = String::from_utf8_lossy(&data.key(0)).into_owned();
        let namespace = key.split('/').nth(1).unwrap_or_default();
        kube.resource = ApiResource::core("configmaps", "ConfigMap");
        kube.path = kube.resource.name.collection(Some(namespace));
        Self {
            kube,
            etcd,
            data,
            written: 0,
        }
    }

    async fn read(&mut self) -> Result<Listed, ListError> {
        let mut check = Check::new(ROOT);
        let listed = self.kube.pages(Some(&mut check), &mut || {}).await?;
        let fingerprint = self.data.fingerprint(0..1);
        let expected = Expected {
            revisions: Some(fingerprint.sum.wrapping_mul(self.written as u64)),
            fingerprint,
            revision: self.written,
        };
        check.finish(&listed, Some(&expected))?;
        Ok(listed)
    }
}

#[async_trait]
impl ListClient for ReadYourWrite {
    /// [`Self::read`] checks the list against the write before it.
    fn shows_objects(&self) -> bool {
        false
    }

    async fn before(&mut self) -> Result<(), ListError> {
        let mut key = ROOT.as_bytes().to_vec();
        self.data.write_key(0, &mut key);
        let put = PutRequest {
            key: key.into(),
            value: self.data.value(0),
            ..PutRequest::default()
        };
        let put = self.etcd.kv().put(put).await;
        let response = put.map_err(etcd_api::error::Error::from)?.into_inner();
        let header = response.header.map(|header| header.revision);
        self.written =
            header.ok_or_else(|| InvalidResponse::Malformed("a put without header".to_owned()))?;
        Ok(())
    }

    async fn list(
        &mut self,
        _: &mut Check,
        _: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        self.read().await
    }

    async fn list_unchecked(&mut self) -> Result<(), ListError> {
        self.read().await.map(|_| ())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        self.read().await.map(|_| ())
    }
}
