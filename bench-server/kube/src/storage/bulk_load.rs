//! Builds a tree of the objects of a list, on another thread than the one that receives the list:
//! decoding copies every byte into newly allocated memory, which takes as long as receiving.

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

/// The number of chunks that are received ahead of those being decoded. A chunk is a frame of at
/// most 1 MiB.
pub(crate) const CHANNEL_CHUNKS: usize = 16;

/// A part of a list, in key order.
#[derive(Debug)]
pub(crate) enum ListChunk {
    /// Chunk of a stream: buffers of consecutive whole encoded objects.
    Runs(Vec<Bytes>),
    /// Chunk of a page.
    Page(Vec<KeyValue>),
}

impl ListChunk {
    /// Returns approximately how many bytes the objects of the chunk will take.
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
    /// The received bytes are not encoded objects. `see` has been called with those before the
    /// error.
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

/// A tree that is being built, and what is needed to decode its objects.
struct TreeBuilder {
    resource: &'static Resource,
    prefix: Vec<u8>,
    metrics: Metrics,
    objects: Builder<Object>,
}

/// Builds the tree of all objects that arrive. Values that do not decode are omitted, counted and
/// logged.
///
/// # Errors
/// The received bytes are not objects, or not in key order.
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
        let mut chunks = Vec::with_capacity(CHANNEL_CHUNKS);
        if incoming.recv_many(&mut chunks, CHANNEL_CHUNKS).await == 0 {
            return Ok(builder.objects.finish());
        }
        // All chunks that have arrived meanwhile are decoded together.
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
