//! The methods of the trait, whose results depend on the data and the switches.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::{
    DeleteOptions, Features, GetOptions, GetResponse, KubernetesEtcd, ListBatch, ListOptions,
    ListResponse, OptimisticResponse, PutOptions, Watch, WatchError, WatchItem, WatchOptions,
};
use etcd_api::proto::etcdserverpb::RangeResponse;
use futures::stream::{self, BoxStream, StreamExt};
use prost::Message;
use tokio::sync::mpsc;

use super::FakeEtcd;
use super::data::Watcher;

impl FakeEtcd {
    /// Applies the change if the revision of the key is `expected`; 0 if the key must not exist.
    fn write_if(
        &self,
        key: &[u8],
        expected: i64,
        value: Option<Vec<u8>>,
        get_on_failure: bool,
    ) -> Result<OptimisticResponse, Error> {
        self.up()?;
        let (kv, revision) = {
            let data = self.0.data.lock();
            (data.at(0)?.get(key).cloned(), data.revision())
        };
        if kv.as_ref().map_or(0, |kv| kv.mod_revision) != expected {
            return Ok(OptimisticResponse {
                succeeded: false,
                kv: kv.filter(|_| get_on_failure),
                revision,
            });
        }
        let key = String::from_utf8_lossy(key);
        Ok(OptimisticResponse {
            succeeded: true,
            kv: None,
            revision: self.write(&[(&key, value)]),
        })
    }
}

#[async_trait]
impl KubernetesEtcd for FakeEtcd {
    async fn get(&self, key: &[u8], options: GetOptions) -> Result<GetResponse, Error> {
        self.up()?;
        let data = self.0.data.lock();
        Ok(GetResponse {
            kv: data.at(options.revision)?.get(key).cloned(),
            revision: data.revision(),
        })
    }

    async fn list(&self, prefix: &[u8], options: ListOptions) -> Result<ListResponse, Error> {
        self.up()?;
        self.0.pages.fetch_add(1, Ordering::SeqCst);
        let data = self.0.data.lock();
        let (kvs, count) = data.list(prefix, &options)?;
        Ok(ListResponse {
            kvs,
            count,
            revision: data.revision(),
        })
    }

    async fn list_stream(
        &self,
        prefix: &[u8],
        options: ListOptions,
    ) -> Result<BoxStream<'static, Result<ListBatch, Error>>, Error> {
        self.up()?;
        if self.0.stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.0.no_stream.load(Ordering::SeqCst) {
            return Err(Error::Unimplemented("unknown method RangeStream".into()));
        }
        self.0.streams.fetch_add(1, Ordering::SeqCst);
        let data = self.0.data.lock();
        let (kvs, count) = data.list(prefix, &options)?;
        let more = count > kvs.len() as i64;
        let mut batches: Vec<_> = kvs
            .chunks(7)
            .map(|chunk| {
                let response = RangeResponse {
                    kvs: chunk.to_vec(),
                    ..RangeResponse::default()
                };
                Ok(ListBatch::Objects(vec![response.encode_to_vec().into()]))
            })
            .collect();
        batches.push(Ok(ListBatch::End {
            revision: data.revision(),
            count,
            more,
        }));
        Ok(stream::iter(batches).boxed())
    }

    async fn count(&self, prefix: &[u8]) -> Result<i64, Error> {
        Ok(self.0.data.lock().list(prefix, &ListOptions::default())?.1)
    }

    async fn optimistic_put(
        &self,
        key: &[u8],
        value: Bytes,
        expected_revision: i64,
        options: PutOptions,
    ) -> Result<OptimisticResponse, Error> {
        let value = Some(value.to_vec());
        self.write_if(key, expected_revision, value, options.get_on_failure)
    }

    async fn optimistic_delete(
        &self,
        key: &[u8],
        expected_revision: i64,
        options: DeleteOptions,
    ) -> Result<OptimisticResponse, Error> {
        self.write_if(key, expected_revision, None, options.get_on_failure)
    }

    async fn current_revision(&self, _: &[u8]) -> Result<i64, Error> {
        self.up()?;
        self.has_revisions()?;
        Ok(self.0.data.lock().revision())
    }

    async fn lease_grant(&self, _: i64) -> Result<i64, Error> {
        Err(Error::Unimplemented("no leases".into()))
    }

    async fn compact(&self, revision: i64) -> Result<(), Error> {
        if revision <= self.0.data.lock().compacted {
            return Err(Error::Refused(Refusal::Compacted));
        }
        self.compact_at(revision);
        Ok(())
    }

    async fn compacted_revision(&self) -> Result<i64, Error> {
        self.up()?;
        Ok(self.0.data.lock().compacted)
    }

    async fn features(&self) -> Result<Features, Error> {
        self.up()?;
        if self.0.no_features.load(Ordering::SeqCst) {
            return Err(Error::Protocol("no features today".into()));
        }
        let request_progress = self.0.has_progress.load(Ordering::SeqCst);
        Ok(Features {
            version: "3.7.1".into(),
            request_progress,
            range_stream: None,
        })
    }

    async fn watch(
        &self,
        prefix: &[u8],
        options: WatchOptions,
    ) -> Result<Box<dyn Watch>, WatchError> {
        self.up()?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut data = self.0.data.lock();
        if options.start_revision < data.compacted {
            return Err(WatchError::Compacted {
                compact_revision: data.compacted,
            });
        }
        let missed = data.events.iter().filter(|event| {
            event.kv.mod_revision >= options.start_revision && event.kv.key.starts_with(prefix)
        });
        for item in WatchItem::by_revision(missed.cloned()) {
            sender.send(Ok(item)).ok();
        }
        data.watchers.push(Watcher {
            prefix: prefix.to_vec(),
            stream_key: options.stream_key,
            sender,
            held: Vec::new(),
        });
        Ok(Box::new(FakeWatch(receiver)))
    }

    async fn request_progress(&self, stream_key: &str) -> Result<(), Error> {
        self.0.progress_requests.fetch_add(1, Ordering::SeqCst);
        if self.0.silent.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut data = self.0.data.lock();
        let revision = data.revision();
        for watcher in data
            .watchers
            .iter_mut()
            .filter(|watcher| watcher.stream_key == stream_key)
        {
            for item in watcher.held.drain(..) {
                watcher.sender.send(Ok(item)).ok();
            }
            watcher
                .sender
                .send(Ok(WatchItem::Progress { revision }))
                .ok();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct FakeWatch(mpsc::UnboundedReceiver<Result<WatchItem, WatchError>>);

#[async_trait]
impl Watch for FakeWatch {
    async fn next(&mut self) -> Option<Result<WatchItem, WatchError>> {
        self.0.recv().await
    }
}
