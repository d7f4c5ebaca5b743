//! A client of any etcd v3 endpoint list.
//!
//! - [`config`]: endpoints, HTTP/2 windows, TLS files, user
//! - [`Client`]: the services through tonic, for everything that is not a measured list
//! - [`calls`]: many small unary calls on one connection, at the least cost per call
//! - [`walk`]: an incremental checker of list responses that builds nothing per object
//! - [`raw_list`]: Range and RangeStream on bare HTTP/2, feeding a walker or a counter
//! - `plain_body`: as many bytes as one plain body, the baseline of lists
//! - `dial`: sockets, plain and TLS, for connections that do not go through tonic
//! - `token`, `keep_alive`: a user's token that may be renewed; pings for connections of our own
//! - [`kubernetes`]: the Kubernetes-etcd interface (KEP-4743) over an endpoint
//! - [`watch`]: its watch half: shared streams, joined revisions, ordered progress

pub mod calls;
pub mod config;
mod dial;
mod keep_alive;
pub mod kubernetes;
mod plain_body;
pub mod raw_list;
mod token;
pub mod walk;
pub mod watch;

use http::HeaderValue;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Uri};
use tonic::{Request, Status};

use crate::error::{Error, Refusal};
use crate::proto::etcdserverpb as pb;
use config::{ClientConfig, chain};
use pb::cluster_client::ClusterClient;
use pb::kv_client::KvClient;
use pb::lease_client::LeaseClient;
use pb::maintenance_client::MaintenanceClient;
use pb::watch_client::WatchClient;
use token::Token;

/// Adds the `token` of an authenticated user and, on watches, `hasleader`.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    token: Token,
    require_leader: bool,
}

impl Interceptor for Metadata {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if let Some(token) = self.token.get() {
            let value = AsciiMetadataValue::try_from(token.as_bytes())
                .map_err(|_| Status::internal("token is not ASCII"))?;
            metadata.insert("token", value);
        }
        if self.require_leader {
            metadata.insert("hasleader", AsciiMetadataValue::from_static("true"));
        }
        Ok(request)
    }
}

/// A tonic channel with [`Metadata`] on every request.
pub type Transport = InterceptedService<Channel, Metadata>;

/// The services of an etcd cluster. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    config: ClientConfig,
    channel: Channel,
    token: Token,
}

impl Client {
    /// Connects (requests are balanced over the endpoints) and authenticates when a user is set.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when no endpoint accepts a connection, [`Error::Config`] for unusable
    /// settings, [`Error::Refused`] for a wrong user or password. A server without authentication
    /// is fine with any user, as it is for Go's client.
    pub async fn connect(config: ClientConfig) -> Result<Self, Error> {
        let channel = connect_channel(&config).await?;
        let client = Self {
            config,
            channel,
            token: Token::default(),
        };
        client.token.set(client.authenticate().await?);
        Ok(client)
    }

    /// Runs `call`. If the server refuses the user's token, authenticates anew and runs it once more;
    /// every service and connection of this client uses the new token.
    ///
    /// # Errors
    /// Those of the last `call`, or of authenticating.
    pub async fn renewing<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match call().await {
            Err(Error::Refused(refusal)) if self.config.user.is_some() && is_stale(refusal) => {
                self.token.set(self.authenticate().await?);
                call().await
            }
            other => other,
        }
    }

    /// What it was made from.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Range, RangeStream, Put, DeleteRange, Txn, Compact.
    pub fn kv(&self) -> KvClient<Transport> {
        KvClient::new(self.transport(false))
            .max_decoding_message_size(self.config.max_message_bytes)
    }

    /// Watch, with `hasleader`: a member without a leader ends the stream instead of going silent.
    pub fn watch(&self) -> WatchClient<Transport> {
        WatchClient::new(self.transport(true))
            .max_decoding_message_size(self.config.max_message_bytes)
    }

    /// Lease services.
    pub fn lease(&self) -> LeaseClient<Transport> {
        LeaseClient::new(self.transport(false))
    }

    /// Maintenance of whichever endpoint the balancer picks.
    pub fn maintenance(&self) -> MaintenanceClient<Transport> {
        MaintenanceClient::new(self.transport(false))
    }

    /// Maintenance of one endpoint: Status and Alarm answers are per member.
    ///
    /// # Errors
    /// [`Error::Config`] as [`Client::connect`]; reaching it is only tried by the first request.
    pub fn maintenance_of(&self, endpoint: &Uri) -> Result<MaintenanceClient<Transport>, Error> {
        let channel = self.config.tonic_endpoint(endpoint)?.connect_lazy();
        let transport = InterceptedService::new(channel, self.metadata(false));
        Ok(MaintenanceClient::new(transport))
    }

    /// Members.
    pub fn cluster(&self) -> ClusterClient<Transport> {
        ClusterClient::new(self.transport(false))
    }

    /// A connection of its own for raw lists, to the first endpoint that accepts one.
    ///
    /// # Errors
    /// As [`raw_list::RawConnection::connect`].
    pub async fn raw(&self) -> Result<raw_list::RawConnection, Error> {
        raw_list::RawConnection::connect_with(&self.config, self.token.clone()).await
    }

    fn metadata(&self, require_leader: bool) -> Metadata {
        Metadata {
            token: self.token.clone(),
            require_leader,
        }
    }

    fn transport(&self, require_leader: bool) -> Transport {
        InterceptedService::new(self.channel.clone(), self.metadata(require_leader))
    }

    async fn authenticate(&self) -> Result<Option<HeaderValue>, Error> {
        let Some(user) = &self.config.user else {
            return Ok(None);
        };
        let request = pb::AuthenticateRequest {
            name: user.name.clone(),
            password: user.password.clone(),
        };
        let answer = pb::auth_client::AuthClient::new(self.channel.clone())
            .authenticate(request)
            .await;
        match answer.map_err(Error::from) {
            Ok(response) => HeaderValue::try_from(response.into_inner().token)
                .map(Some)
                .map_err(|_| Error::Protocol("token is not ASCII".into())),
            Err(Error::Refused(Refusal::AuthNotEnabled)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a new token helps: the old one is unknown, was made before users or roles changed, or was not sent
/// because there was no authentication when the client connected. Go's client renews for the same three.
fn is_stale(refusal: Refusal) -> bool {
    matches!(
        refusal,
        Refusal::InvalidAuthToken | Refusal::AuthOldRevision | Refusal::UserEmpty
    )
}

/// One endpoint is connected before returning; of several, one must accept a connection and the
/// rest join when they can.
async fn connect_channel(config: &ClientConfig) -> Result<Channel, Error> {
    let mut last = Error::Config("no endpoint given".into());
    let mut reached = None;
    for uri in &config.endpoints {
        match config.tonic_endpoint(uri)?.connect().await {
            Ok(channel) => {
                reached = Some(channel);
                break;
            }
            Err(error) => {
                last = Error::Unreachable {
                    endpoint: uri.to_string(),
                    reason: chain(&error),
                };
            }
        }
    }
    match (reached, config.endpoints.len()) {
        (None, _) => Err(last),
        (Some(channel), 1) => Ok(channel),
        (Some(_), _) => {
            let endpoints = config
                .endpoints
                .iter()
                .map(|uri| config.tonic_endpoint(uri))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Channel::balance_list(endpoints.into_iter()))
        }
    }
}
