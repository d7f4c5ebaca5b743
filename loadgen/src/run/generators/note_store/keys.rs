//! Notes as keys of an etcd, below a prefix.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
    WatchCreateRequest, WatchRequest, WatchResponse,
};
use futures::stream::{self, StreamExt as _};
use tonic::Streaming;

use super::Question;
use crate::timeouts::in_time;

/// A connection, and the prefix of all keys. Methods take keys without the prefix.
#[derive(Debug, Clone)]
pub(in super::super) struct Keys {
    client: Client,
    prefix: String,
}

impl Keys {
    /// Connects.
    ///
    /// # Errors
    /// [`EtcdError`] when the endpoint cannot be reached, or does not respond.
    pub(super) async fn connect(config: &ClientConfig, prefix: &str) -> Result<Self, EtcdError> {
        Ok(Self {
            client: in_time(Client::connect(config.clone())).await?,
            prefix: prefix.to_owned(),
        })
    }

    /// Returns the value of a key; `None` if it does not exist.
    ///
    /// # Errors
    /// Those of the target.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Bytes>, EtcdError> {
        let found = self.range(RangeRequest {
            key: format!("{}{key}", self.prefix).into(),
            ..RangeRequest::default()
        });
        let kv = found.await?.kvs.into_iter().next();
        Ok(kv.map(|kv| kv.value))
    }

    /// Returns the numbers below `count` for which there is no key `WHAT/NUMBER`.
    ///
    /// # Errors
    /// Those of the target.
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
    /// Those of the target.
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

    /// Puts a key if the keys of `versions` have these versions (numbers of writes; 0 if the key
    /// does not exist). Returns whether they had.
    ///
    /// # Errors
    /// Those of the target.
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

    /// Watches the keys below `asked`. The server has confirmed the watch when this function
    /// returns.
    ///
    /// # Errors
    /// When the server does not confirm it.
    pub(super) async fn questions(&self, asked: &str) -> Result<KeyQuestions, EtcdError> {
        let asked = format!("{}{asked}", self.prefix);
        let create = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
                range_end: prefix_end(asked.as_bytes()).into(),
                key: asked.clone().into(),
                ..WatchCreateRequest::default()
            })),
        };
        // The server ends the watch when the stream of requests ends.
        let requests = stream::iter([create]).chain(stream::pending());
        let mut watch = self.client.watch();
        let opened = async {
            let mut responses = watch.watch(requests).await?.into_inner();
            let created = responses.message().await?;
            match created.is_some_and(|created| created.created && !created.canceled) {
                true => Ok(responses),
                false => Err(EtcdError::Protocol(
                    "no watch was created for the generators' clocks".to_owned(),
                )),
            }
        };
        let responses = in_time::<_, EtcdError>(opened).await?;
        Ok(KeyQuestions { asked, responses })
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

/// A watch of keys.
pub(in super::super) struct KeyQuestions {
    /// The prefix of the keys.
    asked: String,
    responses: Streaming<WatchResponse>,
}

impl KeyQuestions {
    /// Waits for the next questions.
    ///
    /// # Errors
    /// When the watch ends.
    pub(super) async fn next(&mut self) -> Result<Vec<Question>, EtcdError> {
        let response = self.responses.message().await?;
        let ended = || EtcdError::Protocol("the watch of the generators' clocks ended".to_owned());
        let events = response.ok_or_else(ended)?.events.into_iter();
        let kvs = events.filter_map(|event| event.kv.filter(|kv| !kv.value.is_empty()));
        let questions = kvs.filter_map(|kv| {
            let key = String::from_utf8_lossy(&kv.key).into_owned();
            Some(Question {
                generator: key.strip_prefix(&self.asked)?.to_owned(),
                text: String::from_utf8_lossy(&kv.value).into_owned(),
            })
        });
        Ok(questions.collect())
    }
}
