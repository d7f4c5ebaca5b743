//! A client of an etcd v3 cluster, given its list of endpoints.
//!
//! - [`config`]: endpoints, HTTP/2 windows, TLS files, user
//! - [`Client`]: the services through tonic, for everything but measured lists
//! - [`pipelined`]: many small unary calls on one connection, at the least cost per call
//! - [`list_validator`]: validates list responses while they arrive, without building objects
//! - [`raw_list`]: Range and RangeStream directly on HTTP/2, validated or unchecked
//! - `baseline`: reads a plain body of the same number of bytes as a list
//! - `dial`: plain and TLS sockets, for connections that do not use tonic
//! - [`members`]: round robin over the endpoints that are connected
//! - `token`, `keep_alive`: a renewable user token; pings for connections that do not use tonic
//! - [`kubernetes`]: the Kubernetes-etcd interface (KEP-4743) over an endpoint list
//! - [`watch`]: the watches of that interface: shared streams, whole revisions, ordered progress

mod baseline;
pub mod config;
mod dial;
mod keep_alive;
pub mod kubernetes;
pub mod list_validator;
pub mod members;
pub mod pipelined;
pub mod raw_list;
mod token;
pub mod watch;

use http::HeaderValue;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Uri;
use tonic::{Request, Status};

use crate::error::{Error, Refusal};
use crate::proto::etcdserverpb as pb;
use config::{ClientConfig, chain};
use members::{Connections, Members, until_answered};
use pb::cluster_client::ClusterClient;
use pb::kv_client::KvClient;
use pb::lease_client::LeaseClient;
use pb::maintenance_client::MaintenanceClient;
use pb::watch_client::WatchClient;
use token::Token;

/// Adds metadata to requests: the `token` of an authenticated user, and `hasleader` on watches.
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

/// The connections, with [`Metadata`] added to every request.
pub type Transport = InterceptedService<Connections, Metadata>;

/// The services of an etcd cluster. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    config: ClientConfig,
    connections: Connections,
    token: Token,
}

impl Client {
    /// Connects to the endpoints, and authenticates if a user is configured. Requests use the
    /// connected endpoints in turn.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when no endpoint accepts a connection, [`Error::Config`] for invalid
    /// settings, [`Error::Refused`] for a wrong user or password. A server without authentication
    /// accepts any user, as with Go's client.
    pub async fn connect(config: ClientConfig) -> Result<Self, Error> {
        let connections = connect(&config).await?;
        let client = Self {
            config,
            connections,
            token: Token::default(),
        };
        client.token.set(client.authenticate().await?);
        Ok(client)
    }

    /// Runs `call`. If the server rejects the user's token, authenticates again and runs `call`
    /// once more. All services and connections of this client then use the new token.
    ///
    /// # Errors
    /// Those of the last `call`, or of the authentication.
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

    /// Returns the configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Returns the KV service.
    pub fn kv(&self) -> KvClient<Transport> {
        KvClient::new(self.transport(false))
            .max_decoding_message_size(self.config.max_message_bytes)
    }

    /// Returns the Watch service, with `hasleader`: a member that loses its leader then ends the
    /// stream instead of sending nothing.
    pub fn watch(&self) -> WatchClient<Transport> {
        WatchClient::new(self.transport(true))
            .max_decoding_message_size(self.config.max_message_bytes)
    }

    /// Returns the Lease service.
    pub fn lease(&self) -> LeaseClient<Transport> {
        LeaseClient::new(self.transport(false))
    }

    /// Returns the Maintenance service of the endpoint that the client picks.
    pub fn maintenance(&self) -> MaintenanceClient<Transport> {
        MaintenanceClient::new(self.transport(false))
    }

    /// Returns the Maintenance service of one endpoint. Responses to Status and Alarm differ by
    /// member.
    ///
    /// # Errors
    /// [`Error::Config`] as in [`Client::connect`]. The connection is opened by the first request.
    pub fn maintenance_of(&self, endpoint: &Uri) -> Result<MaintenanceClient<Transport>, Error> {
        let channel = self.config.tonic_endpoint(endpoint)?.connect_lazy();
        let transport = InterceptedService::new(Connections::One(channel), self.metadata(false));
        Ok(MaintenanceClient::new(transport))
    }

    /// Returns the Cluster service.
    pub fn cluster(&self) -> ClusterClient<Transport> {
        ClusterClient::new(self.transport(false))
    }

    /// Opens a separate connection for raw lists, to the first endpoint that accepts it.
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
        InterceptedService::new(self.connections.clone(), self.metadata(require_leader))
    }

    async fn authenticate(&self) -> Result<Option<HeaderValue>, Error> {
        let Some(user) = &self.config.user else {
            return Ok(None);
        };
        let request = pb::AuthenticateRequest {
            name: user.name.clone(),
            password: user.password.clone(),
        };
        let response = pb::auth_client::AuthClient::new(self.connections.clone())
            .authenticate(request)
            .await;
        match response.map_err(Error::from) {
            Ok(response) => HeaderValue::try_from(response.into_inner().token)
                .map(Some)
                .map_err(|_| Error::Protocol("token is not ASCII".into())),
            Err(Error::Refused(Refusal::AuthNotEnabled)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a new token helps: the old one is unknown, predates a change of users or roles,
/// or was not sent because authentication was off when the client connected. Go's client renews its
/// token in the same three cases.
fn is_stale(refusal: Refusal) -> bool {
    matches!(
        refusal,
        Refusal::InvalidAuthToken | Refusal::AuthOldRevision | Refusal::UserEmpty
    )
}

/// Connects to the endpoints in their order until one of them is connected; the others are
/// connected in the background. One that accepts and does not answer delays this by the connect
/// timeout.
async fn connect(config: &ClientConfig) -> Result<Connections, Error> {
    let uris = &config.endpoints;
    let endpoints = uris.iter().map(|uri| config.tonic_endpoint(uri));
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    let unreachable = |uri: &Uri, reason: String| Error::Unreachable {
        endpoint: uri.to_string(),
        reason,
    };
    if let ([uri], [endpoint]) = (&uris[..], &endpoints[..]) {
        let channel = endpoint.connect().await;
        let channel = channel.map_err(|error| unreachable(uri, chain(&error)))?;
        return Ok(Connections::One(channel));
    }
    let mut last = Error::Config("no endpoint given".into());
    for (nth, (uri, endpoint)) in uris.iter().zip(&endpoints).enumerate() {
        match until_answered(endpoint).await {
            Ok(channel) => {
                return Ok(Connections::Several(Members::new(endpoints, nth, &channel)));
            }
            Err(reason) => last = unreachable(uri, reason),
        }
    }
    Err(last)
}
