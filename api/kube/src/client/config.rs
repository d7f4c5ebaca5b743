//! Reads kubeconfig files as kubectl does: the server and the credentials of a context.
//!
//! If several files define a cluster, user or context of the same name, the first one wins; so does
//! the first current context. Paths in a file are relative to that file. Unsupported settings that
//! would change the identity or the destination of requests are errors and are never ignored.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::Credentials;
use super::error::KubeError;
use super::exec::ExecPlugin;

/// The name of the cluster extension that is passed to credential plugins.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// A context of a kubeconfig.
#[derive(Debug, Clone)]
pub struct Context {
    /// URL of the API.
    pub server: String,
    /// Credentials of the user.
    pub credentials: Credentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    clusters: Option<Vec<NamedCluster>>,
    #[serde(default)]
    users: Option<Vec<NamedUser>>,
    #[serde(default)]
    contexts: Option<Vec<NamedContext>>,
    #[serde(default)]
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
    extensions: Option<Vec<NamedExtension>>,
}

#[derive(Deserialize)]
struct NamedExtension {
    name: String,
    #[serde(default)]
    extension: Value,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    exec: Option<ExecPlugin>,
    auth_provider: Option<serde::de::IgnoredAny>,
    username: Option<serde::de::IgnoredAny>,
    #[serde(rename = "as")]
    impersonated: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: ContextOf,
}

#[derive(Deserialize)]
struct ContextOf {
    cluster: String,
    #[serde(default)]
    user: String,
}

impl Context {
    /// Reads the context of this name (empty: the current one) from the files of `$KUBECONFIG`, or
    /// from `~/.kube/config`. Files that do not exist are skipped.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] naming the file and what is missing or invalid in it.
    pub fn named(name: &str) -> Result<Self, KubeError> {
        let listed = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
        let home = std::env::var_os("HOME");
        let paths = match &listed {
            Some(list) => listed_paths(list),
            None => home
                .iter()
                .map(|home| Path::new(home).join(".kube/config"))
                .collect(),
        };
        Self::from_files(&paths, name)
    }

    /// Reads the context of this name from these files; the first file takes precedence.
    ///
    /// # Errors
    /// As [`Self::named`]; also if none of the files exists.
    pub fn from_files(paths: &[PathBuf], name: &str) -> Result<Self, KubeError> {
        let mut files = Vec::new();
        for path in paths {
            match std::fs::read_to_string(path) {
                Ok(text) => files.push((path.as_path(), text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(bad(path, &e)),
            }
        }
        let texts: Vec<(&Path, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
        if texts.is_empty() {
            let named: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
            let named = match named.is_empty() {
                true => "kubeconfig".to_owned(),
                false => named.join(", "),
            };
            return Err(KubeError::Credentials {
                what: named,
                reason: "no such file".to_owned(),
            });
        }
        Self::merged(&texts, name)
    }

    /// Reads the context of this name from the text of the file at `path`. Paths in it are relative
    /// to that file.
    ///
    /// # Errors
    /// As [`Self::named`].
    pub fn parse(text: &str, name: &str, path: &Path) -> Result<Self, KubeError> {
        Self::merged(&[(path, text)], name)
    }

    /// Returns a one-line warning for the user, to be shown before requests are sent.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.credentials.insecure && self.server.starts_with("https:")).then(|| {
            format!(
                "insecure-skip-tls-verify: any server at {} is trusted, and is sent the credentials",
                self.server
            )
        })
    }

    fn merged(texts: &[(&Path, &str)], name: &str) -> Result<Self, KubeError> {
        let mut files = Vec::new();
        for (path, text) in texts {
            let file: File = serde_saphyr::from_str(text).map_err(|e| bad(path, &e))?;
            files.push((*path, file));
        }
        let first = files.first().map_or(Path::new(""), |(path, _)| path);
        let current = files.iter().find_map(|(path, file)| {
            let current = file.current_context.as_deref();
            Some((*path, current.filter(|name| !name.is_empty())?))
        });
        let (at, name) = match (name, current) {
            ("", Some((path, current))) => (path, current.to_owned()),
            ("", None) => return Err(bad(first, &"there is no current-context: name a context")),
            (name, _) => (first, name.to_owned()),
        };
        let missing = |path: &Path, what: &str, name: &str| {
            bad(path, &format!("there is no {what} `{name}`"))
        };
        let context = first_of(&files, |file| &file.contexts, |it| it.name == name);
        let (at, context) = context.ok_or_else(|| missing(at, "context", &name))?;
        let ContextOf { cluster, user } = &context.context;
        let named = first_of(&files, |file| &file.clusters, |it| it.name == *cluster);
        let (of_cluster, named) = named.ok_or_else(|| missing(at, "cluster", cluster))?;
        let cluster = &named.cluster;
        let named = first_of(&files, |file| &file.users, |it| it.name == *user);
        let none = User::default();
        let (of_user, user) = match (named, user.as_str()) {
            (Some((path, named)), _) => (path, &named.user),
            (None, "") => (at, &none),
            (None, user) => return Err(missing(at, "user", user)),
        };
        cluster.check().map_err(|reason| bad(of_cluster, &reason))?;
        user.check().map_err(|reason| bad(of_user, &reason))?;
        let ca = pem(
            of_cluster,
            cluster.certificate_authority_data.as_ref(),
            cluster.certificate_authority.as_ref(),
        )?;
        let certificate = pem(
            of_user,
            user.client_certificate_data.as_ref(),
            user.client_certificate.as_ref(),
        )?;
        let key = pem(
            of_user,
            user.client_key_data.as_ref(),
            user.client_key.as_ref(),
        )?;
        if certificate.is_some() != key.is_some() {
            let reason = "it has only one of client-certificate and client-key";
            return Err(bad(of_user, &reason));
        }
        let exec = match &user.exec {
            None => None,
            Some(plugin) => {
                let plugin = plugin.clone().checked(folder(of_user));
                let plugin = plugin.map_err(|reason| bad(of_user, &reason))?;
                Some(plugin.about(|| cluster.exec_info(ca.as_deref())))
            }
        };
        Ok(Self {
            server: cluster.server.clone(),
            credentials: Credentials {
                ca,
                insecure: cluster.insecure_skip_tls_verify,
                server_name: cluster.tls_server_name.clone().filter(|it| !it.is_empty()),
                identity: certificate.zip(key),
                token: user.token.clone().filter(|token| !token.is_empty()),
                token_file: user
                    .token_file
                    .as_ref()
                    .map(|file| folder(of_user).join(file)),
                exec,
                proxy_url: cluster.proxy_url.clone().filter(|url| !url.is_empty()),
            },
        })
    }
}

impl Cluster {
    /// Returns an error if the settings contradict each other, as kubectl does.
    fn check(&self) -> Result<(), &'static str> {
        let has_ca =
            self.certificate_authority.is_some() || self.certificate_authority_data.is_some();
        match self.insecure_skip_tls_verify && has_ca {
            true => Err("it has both insecure-skip-tls-verify and a certificate-authority"),
            false => Ok(()),
        }
    }

    /// Returns the description of the cluster that is passed to a plugin.
    fn exec_info(&self, ca: Option<&[u8]>) -> Value {
        let mut info = json!({ "server": self.server });
        if let Some(name) = &self.tls_server_name {
            info["tls-server-name"] = json!(name);
        }
        if self.insecure_skip_tls_verify {
            info["insecure-skip-tls-verify"] = json!(true);
        }
        if let Some(ca) = ca {
            info["certificate-authority-data"] = json!(STANDARD.encode(ca));
        }
        let extensions = self.extensions.iter().flatten();
        let mut own = extensions.filter(|extension| extension.name == EXEC_EXTENSION);
        if let Some(own) = own.next() {
            info["config"] = own.extension.clone();
        }
        info
    }
}

impl User {
    /// Returns an error if requests would have another identity than the user's.
    fn check(&self) -> Result<(), &'static str> {
        if self.impersonated.is_some() {
            return Err("users with `as` (impersonation) are not supported");
        }
        if self.username.is_some() {
            return Err(
                "users with `username` are not supported: no apiserver takes passwords since 1.19",
            );
        }
        match self.auth_provider.is_some() {
            true => Err(
                "users with `auth-provider` are not supported, nor by kubectl since 1.26: use `exec`",
            ),
            false => Ok(()),
        }
    }
}

/// Returns the paths in the value of `$KUBECONFIG`.
fn listed_paths(list: &OsStr) -> Vec<PathBuf> {
    let paths = std::env::split_paths(list);
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Returns the first entry of any file for which `is_it` holds, with the path of its file.
fn first_of<'a, T>(
    files: &'a [(&'a Path, File)],
    entries: impl Fn(&'a File) -> &'a Option<Vec<T>>,
    is_it: impl Fn(&T) -> bool,
) -> Option<(&'a Path, &'a T)> {
    files.iter().find_map(|(path, file)| {
        let mut entries = entries(file).iter().flatten();
        Some((*path, entries.find(|entry| is_it(entry))?))
    })
}

/// Returns the PEM text of inline data or of a file; the data wins. `path` is the kubeconfig's.
fn pem(
    path: &Path,
    data: Option<&String>,
    file: Option<&PathBuf>,
) -> Result<Option<Vec<u8>>, KubeError> {
    match (data, file) {
        (Some(data), _) => {
            let decoded = STANDARD.decode(data.trim()).map_err(|e| bad(path, &e));
            decoded.map(Some)
        }
        (None, Some(file)) => {
            let file = folder(path).join(file);
            std::fs::read(&file).map(Some).map_err(|e| bad(&file, &e))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn bad(path: &Path, reason: &dyn std::fmt::Display) -> KubeError {
    KubeError::Credentials {
        what: path.display().to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
