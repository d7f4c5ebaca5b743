//! A connection to an endpoint that loadgen did not start, which reads the endpoint's identity and
//! the size of its contents.

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use kube_api::client::{Connection, KubeError, Options};

use super::precautions::Listed;
use crate::run::target::Target;
use crate::safety::canary::{Read, ServerStatus};
use crate::safety::census::Census;
use crate::safety::identity::Identity;
use crate::safety::kube::{self, KubeIdentity};
use crate::servers::Launcher;
use crate::servers::target_spec::TargetSpec;
use crate::timeouts::in_time;

/// A key to read that does not exist.
const NONEXISTENT_KEY: &str = "/loadgen/canary";

/// An endpoint that is surveyed first, and then watched by a canary.
#[derive(Debug)]
pub(super) struct Endpoint {
    kind: Kind,
    /// The source of its memory metrics, if it serves them.
    status: Option<ServerStatus>,
    /// Why it does not serve them.
    unmetered: Option<String>,
}

#[derive(Debug)]
enum Kind {
    Etcd {
        client: Client,
        /// The key that the canary reads.
        key: Bytes,
        in_use_bytes: Option<u64>,
    },
    Kube(Connection),
}

impl Endpoint {
    /// Connects.
    ///
    /// # Errors
    /// The error as one line.
    pub(super) async fn open(launcher: &Launcher, target: &Target) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let (kind, urls, access) = if let TargetSpec::Etcd(endpoints) = &target.spec {
            let endpoints = ClientConfig::new(endpoints).map_err(|e| text(&e))?;
            let config = ClientConfig {
                endpoints: endpoints.endpoints,
                ..launcher.connect.clone()
            };
            let urls = config.endpoints.iter().map(ToString::to_string).collect();
            let client = in_time(Client::connect(config)).await;
            let kind = Kind::Etcd {
                client: client.map_err(|e| text(&e))?,
                key: Bytes::from_static(NONEXISTENT_KEY.as_bytes()),
                in_use_bytes: None,
            };
            // A token is sent to Kubernetes APIs only.
            let access = launcher.kube_access.clone().without_token();
            (kind, urls, access)
        } else {
            let (url, access) = launcher.kube_of(&target.spec).map_err(|e| text(&e))?;
            let connection = Connection::new(&url, access.clone(), Options::default());
            let kind = Kind::Kube(connection.map_err(|e| text(&e))?);
            (kind, vec![url], access)
        };
        let etcd = match &kind {
            Kind::Etcd { client, .. } => Some(client.clone()),
            Kind::Kube(_) => None,
        };
        let status: Result<ServerStatus, KubeError> =
            ServerStatus::open(&urls, &access, etcd).await;
        let (status, unmetered) = match status {
            Ok(status) => (Some(status), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Self {
            kind,
            status,
            unmetered,
        })
    }

    /// Returns the identity of the endpoint in one line. `yes` allows a user whom a Kubernetes API
    /// exempts from its limits.
    ///
    /// # Errors
    /// The reason as one line, when the endpoint does not identify itself, has an alarm, or needs
    /// `yes`.
    pub(super) async fn identify(&mut self, yes: bool) -> Result<String, String> {
        match &mut self.kind {
            Kind::Etcd {
                client,
                in_use_bytes,
                ..
            } => {
                let identity = in_time(Identity::ask(client)).await;
                let identity = identity.map_err(|e| e.to_string())?;
                if !identity.alarms.is_empty() {
                    return Err(format!("not measured: {identity}"));
                }
                *in_use_bytes = identity.in_use_bytes;
                Ok(identity.to_string())
            }
            Kind::Kube(connection) => {
                let identity = KubeIdentity::ask(connection).await;
                let identity = identity.map_err(|e| e.to_string())?;
                match identity.is_exempt && !yes {
                    true => Err(format!("not measured: {identity}; --yes allows it")),
                    false => Ok(identity.to_string()),
                }
            }
        }
    }

    /// Returns the size of what is to be listed, without listing it.
    ///
    /// # Errors
    /// The reason as one line, when the endpoint does not respond or refuses.
    pub(super) async fn census(&mut self, listed: &Listed) -> Result<Census, String> {
        match (&mut self.kind, listed) {
            (_, Listed::Ours { census, .. }) => Ok(census.clone()),
            (
                Kind::Etcd {
                    client,
                    key,
                    in_use_bytes,
                },
                Listed::Prefix(prefix),
            ) => {
                // A user who may read the prefix may read this key, too.
                *key = Bytes::copy_from_slice(prefix.as_bytes());
                let census = Census::of_etcd(client, prefix.as_bytes(), *in_use_bytes).await;
                census.map_err(|e| e.to_string())
            }
            (Kind::Kube(connection), Listed::Collection(collection)) => {
                let census = kube::census(connection, &collection.path()).await;
                census.map_err(|e| e.to_string())
            }
            (Kind::Etcd { .. }, Listed::Collection(_)) => Err("is no Kubernetes API".to_owned()),
            (Kind::Kube(_), Listed::Prefix(_)) => Err("has no keys with a prefix".to_owned()),
        }
    }

    /// Returns the resident memory of the largest member, if the metrics are available.
    pub(super) fn resident(&self) -> Option<u64> {
        self.status.as_ref().map(ServerStatus::resident)
    }

    /// Returns in one line why the endpoint's memory cannot be watched, if so.
    pub(super) fn unmetered(&self) -> Option<String> {
        let reason = self.unmetered.as_ref()?;
        Some(format!("its memory cannot be watched: {reason}"))
    }

    /// Returns what the canary needs: its read, and the source of memory metrics.
    pub(super) fn watched(self) -> (Read, Option<ServerStatus>) {
        let read = match self.kind {
            Kind::Etcd { client, key, .. } => Read::Etcd { client, key },
            Kind::Kube(connection) => Read::Kube(connection),
        };
        (read, self.status)
    }
}
