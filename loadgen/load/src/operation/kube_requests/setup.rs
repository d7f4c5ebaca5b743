//! Creates the objects of a load before they are read and changed, and reads them back and deletes
//! them afterwards.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::{Method, StatusCode};
use kube_api::client::KubeError;
use workloads::SmallRequest;

use super::channel::{Call, KubeChannel};
use super::text::LABEL;
use super::{KubeRequests, Object};
use crate::endpoint::TargetEndpoint;
use crate::operation::requests::CallError;

/// The number of concurrent requests. An apiserver allows 400 by default, for all clients together.
const CONCURRENT_REQUESTS: usize = 32;

impl KubeRequests {
    /// Creates the objects that the requests use. An object that exists already was created by this
    /// run. Costs one request for each object. The caller must bound the time.
    ///
    /// # Errors
    /// The first [`CallError`] of an object that cannot be created.
    pub async fn make(&self, endpoint: &TargetEndpoint) -> Result<(), CallError> {
        let channel = channel(endpoint).await?;
        let objects = self.objects.iter().zip(0..);
        let made = stream::iter(objects.map(|(object, i)| self.make_one(&channel, object, i)));
        made.buffer_unordered(CONCURRENT_REQUESTS)
            .try_collect()
            .await
    }

    async fn make_one(
        &self,
        channel: &KubeChannel,
        object: &Object,
        i: u64,
    ) -> Result<(), CallError> {
        let like = self.like(i);
        let value = self.own_value(0, i);
        let body = like.text(&object.name, &value);
        let post = Call::simple(Method::POST, like.collection.clone(), body, 0);
        let mut reply = channel.ask(post).await?;
        let mut status = StatusCode::CREATED;
        if reply.is(StatusCode::CONFLICT, "AlreadyExists") {
            let get = Call::simple(Method::GET, object.path.clone(), Bytes::new(), 0);
            reply = channel.ask(get).await?;
            status = StatusCode::OK;
        }
        let read = self.read(SmallRequest::Create, &object.name, &reply, status)?;
        object.hold(read.revision, &reply.body);
        Ok(())
    }

    /// Reads every object that was written and checks that it is at least as new as its latest
    /// acknowledged write. Costs one request for each object. The caller must bound the time.
    ///
    /// # Errors
    /// The first [`CallError`] of an object that is older or cannot be read.
    pub async fn read_back(&self, endpoint: &TargetEndpoint) -> Result<(), CallError> {
        let channel = channel(endpoint).await?;
        let written = |object: &&Object| object.written.load(Ordering::Relaxed) > 0;
        let written = self.objects.iter().filter(written);
        let read = stream::iter(written.map(|object| self.read_back_one(&channel, object)));
        read.buffer_unordered(CONCURRENT_REQUESTS)
            .try_collect()
            .await
    }

    async fn read_back_one(&self, channel: &KubeChannel, object: &Object) -> Result<(), CallError> {
        let get = Call::simple(Method::GET, object.path.clone(), Bytes::new(), 0);
        let reply = channel.ask(get).await?;
        let read = self.read(SmallRequest::Get, &object.name, &reply, StatusCode::OK)?;
        let acknowledged = object.written.load(Ordering::Relaxed);
        match read.revision < acknowledged {
            true => Err(CallError::Lost {
                key: object.path.clone(),
                acknowledged,
                found: read.revision,
            }),
            false => Ok(()),
        }
    }

    /// Deletes everything that the load has created, with one request for each namespace.
    ///
    /// # Errors
    /// The first [`CallError`] of a request that is refused.
    pub async fn remove(&self, endpoint: &TargetEndpoint) -> Result<(), CallError> {
        let channel = channel(endpoint).await?;
        let mut collections: Vec<&str> = self.like.iter().map(|l| l.collection.as_str()).collect();
        collections.sort_unstable();
        collections.dedup();
        for collection in collections {
            let path = format!(
                "{collection}?labelSelector={}%3D{}",
                percent(LABEL),
                self.tag
            );
            let delete = Call::delete_collection(path, super::text::delete_options());
            let reply = channel.ask(delete).await?;
            reply.expect(SmallRequest::Delete, StatusCode::OK, &self.tag)?;
        }
        Ok(())
    }
}

/// Returns a label's name, escaped for a query.
fn percent(name: &str) -> String {
    name.replace('/', "%2F")
}

async fn channel(endpoint: &TargetEndpoint) -> Result<KubeChannel, KubeError> {
    let url = endpoint.kube_url.as_deref();
    let url =
        url.ok_or_else(|| KubeError::Client("the target has no Kubernetes API".to_owned()))?;
    KubeChannel::connect(url, &endpoint.kube_access).await
}
