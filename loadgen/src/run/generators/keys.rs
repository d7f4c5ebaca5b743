//! Keys below a prefix, through which generators tell each other things.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
};

use crate::timeouts::in_time;

/// A connection, and the prefix of every key that is named here.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) client: Client,
    pub(super) prefix: String,
}

impl Keys {
    /// Connects.
    ///
    /// # Errors
    /// [`EtcdError`] when the endpoint cannot be reached, or does not answer.
    pub(super) async fn connect(config: &ClientConfig, prefix: &str) -> Result<Self, EtcdError> {
        Ok(Self {
            client: in_time(Client::connect(config.clone())).await?,
            prefix: prefix.to_owned(),
        })
    }

    /// Returns the value of a key, where it is there.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Bytes>, EtcdError> {
        let found = self.range(RangeRequest {
            key: format!("{}{key}", self.prefix).into(),
            ..RangeRequest::default()
        });
        let kv = found.await?.kvs.into_iter().next();
        Ok(kv.map(|kv| kv.value))
    }

    /// Returns which of so many numbers have no key `WHAT/NUMBER`.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn without(&self, what: &str, count: u32) -> Result<Vec<u32>, EtcdError> {
        let prefix = format!("{}{what}/", self.prefix);
        let found = self.range(RangeRequest {
            range_end: prefix_end(prefix.as_bytes()).into(),
            key: prefix.clone().into(),
            keys_only: true,
            ..RangeRequest::default()
        });
        let keys = found.await?.kvs;
        let is_there = |number: &u32| {
            let key = format!("{prefix}{number}");
            keys.iter().any(|kv| kv.key == key.as_bytes())
        };
        Ok((0..count).filter(|number| !is_there(number)).collect())
    }

    /// Removes every key below the prefix.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn remove_all(&self) -> Result<(), EtcdError> {
        let request = DeleteRangeRequest {
            range_end: prefix_end(self.prefix.as_bytes()).into(),
            key: self.prefix.clone().into(),
            ..DeleteRangeRequest::default()
        };
        let removed = self.client.renewing(|| async {
            let mut kv = self.client.kv();
            kv.delete_range(request.clone()).await?;
            Ok(())
        });
        in_time(removed).await
    }

    /// Puts a key if others have been written so many times; returns whether they had. Who puts
    /// while a key is there that the first generator removes in the end leaves nothing behind.
    ///
    /// # Errors
    /// The target's.
    pub(super) async fn put_if(
        &self,
        versions: &[(&str, i64)],
        key: &str,
        value: String,
    ) -> Result<bool, EtcdError> {
        let compare = versions.iter().map(|(key, version)| Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Version.into(),
            key: format!("{}{key}", self.prefix).into(),
            target_union: Some(TargetUnion::Version(*version)),
            ..Compare::default()
        });
        let request = TxnRequest {
            compare: compare.collect(),
            success: vec![RequestOp {
                request: Some(Request::RequestPut(PutRequest {
                    key: format!("{}{key}", self.prefix).into(),
                    value: value.into(),
                    ..PutRequest::default()
                })),
            }],
            failure: Vec::new(),
        };
        let put = self.client.renewing(|| async {
            let mut kv = self.client.kv();
            let response = kv.txn(request.clone()).await?;
            Ok(response.into_inner().succeeded)
        });
        in_time(put).await
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        let found = self.client.renewing(|| async {
            let mut kv = self.client.kv();
            let response = kv.range(request.clone()).await?;
            Ok(response.into_inner())
        });
        in_time(found).await
    }
}
