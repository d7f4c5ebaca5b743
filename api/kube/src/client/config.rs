//! Reads kubeconfig files: the server and the credentials of a context.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::access::Credentials;
use super::error::KubeError;

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
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    current_context: String,
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
    exec: Option<serde::de::IgnoredAny>,
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
    /// Reads the context of this name (empty: the current one) in the first file of `$KUBECONFIG`,
    /// or in `~/.kube/config`.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] naming the file and what is missing or unusable in it.
    pub fn named(name: &str) -> Result<Self, KubeError> {
        let listed = std::env::var_os("KUBECONFIG");
        let first = listed.and_then(|list| std::env::split_paths(&list).next());
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
        let path = first.or_else(home).unwrap_or_default();
        let text = std::fs::read_to_string(&path).map_err(|e| bad(&path, &e))?;
        Self::parse(&text, name, &path)
    }

    /// Reads the context of this name in the text of the file at `path`; files named in it are
    /// relative to that path.
    ///
    /// # Errors
    /// As [`Self::named`].
    pub fn parse(text: &str, name: &str, path: &Path) -> Result<Self, KubeError> {
        let file: File = serde_saphyr::from_str(text).map_err(|e| bad(path, &e))?;
        let name = match name {
            "" => file.current_context.as_str(),
            name => name,
        };
        let missing = |what: &str, name: &str| bad(path, &format!("there is no {what} `{name}`"));
        let context = file.contexts.into_iter().find(|c| c.name == name);
        let context = context.ok_or_else(|| missing("context", name))?.context;
        let cluster = file
            .clusters
            .into_iter()
            .find(|c| c.name == context.cluster);
        let cluster = cluster
            .ok_or_else(|| missing("cluster", &context.cluster))?
            .cluster;
        let user = file.users.into_iter().find(|u| u.name == context.user);
        let user = user.map(|user| user.user).unwrap_or_default();
        if user.exec.is_some() {
            let reason = "users with `exec` are not supported: write the token to a file, and use --kube URL --token-file FILE";
            return Err(bad(path, &reason));
        }
        let pem = |data: Option<String>, file: Option<PathBuf>| match (data, file) {
            (Some(data), _) => STANDARD
                .decode(data.trim())
                .map(Some)
                .map_err(|e| bad(path, &e)),
            (None, Some(file)) => {
                let file = path.parent().unwrap_or(Path::new("")).join(file);
                std::fs::read(&file).map(Some).map_err(|e| bad(&file, &e))
            }
            (None, None) => Ok(None),
        };
        let certificate = pem(user.client_certificate_data, user.client_certificate)?;
        let key = pem(user.client_key_data, user.client_key)?;
        let token = match (user.token, pem(None, user.token_file)?) {
            (Some(token), _) => Some(token),
            (None, file) => file.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()),
        };
        Ok(Self {
            server: cluster.server,
            credentials: Credentials {
                ca: pem(
                    cluster.certificate_authority_data,
                    cluster.certificate_authority,
                )?,
                identity: certificate.zip(key),
                token,
            },
        })
    }
}

fn bad(path: &Path, reason: &dyn std::fmt::Display) -> KubeError {
    KubeError::Credentials {
        what: path.display().to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
apiVersion: v1
kind: Config
current-context: prod
preferences: {}
clusters:
- name: one
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority-data: Q0E=
contexts:
- name: prod
  context: {cluster: one, user: admin, namespace: default}
- name: cloud
  context: {cluster: one, user: cloud}
- name: lost
  context: {cluster: two, user: admin}
users:
- name: admin
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
- name: cloud
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: gcloud}
"#;

    fn context(name: &str) -> Result<Context, String> {
        Context::parse(TEXT, name, Path::new("config")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_context_names_its_cluster_and_user() {
        for name in ["", "prod"] {
            let Context {
                server,
                credentials,
            } = context(name).expect("a context");
            assert_eq!(server, "https://10.0.0.1:6443");
            assert_eq!(credentials.ca.as_deref(), Some(&b"CA"[..]));
            let identity = credentials.identity.expect("a certificate and its key");
            assert_eq!(identity, (b"CERT".to_vec(), b"KEY".to_vec()));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (name, says) in [
            ("dev", "no context `dev`"),
            ("lost", "no cluster `two`"),
            ("cloud", "--token-file"),
        ] {
            let error = context(name).expect_err(name);
            assert!(error.contains(says), "{error}");
        }
        let broken = Context::parse("clusters: 3", "", Path::new("config"));
        assert!(broken.is_err());
    }
}
