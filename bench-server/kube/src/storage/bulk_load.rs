//! Builds a tree of the objects of a list on another thread than the one that receives it: decoding
//! copies every byte into fresh memory, which takes as long as receiving.

use bytes::Bytes;
use etcd_api::error::Error;
use etcd_api::kubernetes::raw_objects;
use etcd_api::proto::mvccpb::KeyValue;
use index::{Builder, Tree};
use tokio::sync::mpsc;

use super::decoder::Decoder;
use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::resource::object::Object;

/// Chunks that are received ahead of those being decoded; one is a frame, 1 MiB at most.
pub(crate) const AHEAD: usize = 16;

/// A part of a list, in key order.
#[derive(Debug)]
pub(crate) enum ListChunk {
    /// From a stream: runs of whole encoded objects.
    Runs(Vec<Bytes>),
    /// From a page.
    Page(Vec<KeyValue>),
}

impl ListChunk {
    /// Returns about how many bytes its objects will take.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes: usize = match self {
            Self::Runs(runs) => runs.iter().map(Bytes::len).sum(),
            Self::Page(kvs) => kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum(),
        };
        bytes as u64
    }

    /// Calls `see` with every object: stored key, value, revision.
    ///
    /// # Errors
    /// The bytes received are not such objects; `see` has been called with those before it.
    pub(crate) fn each(&self, mut see: impl FnMut(&[u8], &[u8], i64)) -> Result<(), Error> {
        match self {
            Self::Runs(runs) => {
                for object in runs.iter().flat_map(|run| raw_objects(run)) {
                    let object = object?;
                    see(object.key, object.value, object.mod_revision);
                }
            }
            Self::Page(kvs) => {
                for kv in kvs {
                    see(&kv.key, &kv.value, kv.mod_revision);
                }
            }
        }
        Ok(())
    }
}

/// A tree that is being built, and what it takes to decode its objects.
struct TreeBuilder {
    resource: &'static Resource,
    prefix: Vec<u8>,
    metrics: Metrics,
    objects: Builder<Object>,
}

/// Builds the tree of all objects that arrive. Values that do not decode are left out, counted and
/// logged.
///
/// # Errors
/// The bytes received are not objects, or not in key order.
pub(crate) async fn build_tree(
    decoder: Decoder<'_>,
    mut incoming: mpsc::Receiver<ListChunk>,
) -> Result<Tree<Object>, Error> {
    let mut builder = TreeBuilder {
        resource: decoder.resource,
        prefix: decoder.prefix.to_vec(),
        metrics: decoder.metrics.clone(),
        objects: Builder::default(),
    };
    loop {
        let mut chunks = Vec::with_capacity(AHEAD);
        if incoming.recv_many(&mut chunks, AHEAD).await == 0 {
            return Ok(builder.objects.finish());
        }
        // Everything that has arrived meanwhile is decoded in one go.
        let built = tokio::task::spawn_blocking(move || builder.by(&chunks));
        builder = match built.await {
            Ok(built) => built?,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(stopped) => return Err(Error::Protocol(stopped.to_string())),
            },
        };
    }
}

impl TreeBuilder {
    fn by(mut self, chunks: &[ListChunk]) -> Result<Self, Error> {
        let decoder = Decoder {
            resource: self.resource,
            prefix: &self.prefix,
            metrics: &self.metrics,
        };
        let mut misplaced = None;
        for chunk in chunks {
            chunk.each(|key, value, mod_revision| {
                if let Some(object) = decoder.object(key, value, mod_revision)
                    && let Err(object) = self.objects.push(object)
                {
                    misplaced = Some(object);
                }
            })?;
        }
        match misplaced {
            None => Ok(self),
            Some(object) => Err(Error::Protocol(format!(
                "key {} is out of order in a list that storage sent",
                object.key().escape_ascii()
            ))),
        }
    }
}
