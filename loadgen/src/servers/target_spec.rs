//! Parses the value of `--target`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use workloads::strategy::Tier;

/// A target that can be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// Our own servers, started fresh for each case.
    Bench,
    /// Another build of our own servers, likewise.
    BenchBinary(PathBuf),
    /// Our own servers with a log on disk, in a temporary folder, likewise.
    BenchLog {
        /// The program of another build; `None` for this program.
        path: Option<PathBuf>,
        /// Whether writes wait for the disk (`--fsync always`), or for the operating system
        /// (`never`).
        fsync: bool,
    },
    /// An etcd binary, started fresh for each case in a temporary folder.
    EtcdBinary {
        /// The program.
        path: PathBuf,
        /// Whether its writes wait for the disk, as they do in production. If they do not, seeding
        /// is faster and lists are the same.
        fsync: bool,
        /// Whether our Kubernetes tier runs in front of it, for cases of that tier.
        kube_tier: bool,
    },
    /// An existing etcd: its endpoints, comma separated.
    Etcd(String),
    /// An existing Kubernetes API.
    Kube(String),
    /// The Kubernetes API of a context in kubectl's configuration file; empty for the current
    /// context.
    Kubeconfig(String),
}

/// A target that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text has none of the known forms.
    #[error(
        "target `{0}` is none of: bench[:PATH], bench-log[:PATH], bench-fsync[:PATH], etcd:PATH, etcd-fsync:PATH, bench+etcd:PATH, http[s]://HOST:PORT, kube:URL, kubeconfig:[CONTEXT]"
    )]
    Unknown(String),
    /// A URL with a user, which is refused since targets are printed and saved with results. Holds
    /// the URL without the user.
    #[error(
        "target `{0}`: a user and a password do not belong into a URL: an etcd's are given by --user, those of a Kubernetes API by a kubeconfig"
    )]
    User(String),
}

impl TargetSpec {
    /// Returns whether loadgen starts our Kubernetes tier in front of the target.
    #[must_use]
    pub fn has_kube_tier(&self) -> bool {
        match self {
            Self::Bench | Self::BenchBinary(_) | Self::BenchLog { .. } => true,
            Self::EtcdBinary { kube_tier, .. } => *kube_tier,
            Self::Etcd(_) | Self::Kube(_) | Self::Kubeconfig(_) => false,
        }
    }

    /// Returns whether loadgen starts the servers, so that they hold no other data.
    #[must_use]
    pub fn is_started(&self) -> bool {
        matches!(
            self,
            Self::Bench | Self::BenchBinary(_) | Self::BenchLog { .. } | Self::EtcdBinary { .. }
        )
    }

    /// Returns whether the servers are builds of this project.
    #[must_use]
    pub fn is_bench(&self) -> bool {
        matches!(
            self,
            Self::Bench | Self::BenchBinary(_) | Self::BenchLog { .. }
        )
    }

    /// Returns whether the servers are started so that each write waits for the disk.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        matches!(
            self,
            Self::BenchLog { fsync: true, .. } | Self::EtcdBinary { fsync: true, .. }
        )
    }

    /// Returns the reason why this target can never have a case of that tier; `None` if it can.
    #[must_use]
    pub fn lacks(&self, tier: Tier) -> Option<&'static str> {
        match (self, tier) {
            (
                Self::EtcdBinary {
                    kube_tier: false, ..
                }
                | Self::Etcd(_),
                Tier::Kube,
            ) => Some("an etcd has no Kubernetes API"),
            (Self::Kube(_) | Self::Kubeconfig(_), Tier::Etcd) => {
                Some("a Kubernetes API does not speak etcd's protocol")
            }
            _ => None,
        }
    }
}

impl FromStr for TargetSpec {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let refused = || TargetError::Unknown(text.to_owned());
        if text.contains("://")
            && let Some((_, host)) = text.rsplit_once('@')
        {
            return Err(TargetError::User(format!("…@{host}")));
        }
        match text {
            "bench" => return Ok(Self::Bench),
            "bench-log" | "bench-fsync" => {
                let fsync = text == "bench-fsync";
                return Ok(Self::BenchLog { path: None, fsync });
            }
            _ => {}
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self::Etcd(text.to_owned()));
        }
        match text.split_once(':') {
            Some((kind @ ("etcd" | "etcd-fsync" | "bench+etcd"), path))
                if !path.is_empty() && !path.starts_with("//") =>
            {
                Ok(Self::EtcdBinary {
                    path: path.into(),
                    fsync: kind == "etcd-fsync",
                    kube_tier: kind == "bench+etcd",
                })
            }
            Some((kind @ ("bench-log" | "bench-fsync"), path)) if !path.is_empty() => {
                Ok(Self::BenchLog {
                    path: Some(path.into()),
                    fsync: kind == "bench-fsync",
                })
            }
            Some(("bench", path)) if !path.is_empty() => Ok(Self::BenchBinary(path.into())),
            Some(("kube", url)) if url.starts_with("http://") || url.starts_with("https://") => {
                Ok(Self::Kube(url.to_owned()))
            }
            Some(("kubeconfig", context)) => Ok(Self::Kubeconfig(context.to_owned())),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bench => f.write_str("bench"),
            Self::BenchBinary(path) => write!(f, "bench:{}", path.display()),
            Self::BenchLog { path, fsync } => {
                f.write_str(if *fsync { "bench-fsync" } else { "bench-log" })?;
                match path {
                    Some(path) => write!(f, ":{}", path.display()),
                    None => Ok(()),
                }
            }
            Self::EtcdBinary {
                path,
                fsync,
                kube_tier,
            } => {
                let kind = match (fsync, kube_tier) {
                    (_, true) => "bench+etcd",
                    (true, _) => "etcd-fsync",
                    _ => "etcd",
                };
                write!(f, "{kind}:{}", path.display())
            }
            Self::Etcd(endpoints) => f.write_str(endpoints),
            Self::Kube(url) => write!(f, "kube:{url}"),
            Self::Kubeconfig(context) => write!(f, "kubeconfig:{context}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_survive_a_round_trip() {
        for text in [
            "bench",
            "bench:/usr/bin/bench-server",
            "bench-log",
            "bench-fsync",
            "bench-log:/usr/bin/bench-server",
            "bench-fsync:/usr/bin/loadgen",
            "etcd:/usr/bin/etcd",
            "etcd-fsync:/usr/bin/etcd",
            "bench+etcd:/usr/bin/etcd",
            "http://a:1,http://b:2",
            "kube:http://c:3",
            "kube:https://c:3",
            "kubeconfig:prod",
        ] {
            let target: TargetSpec = text.parse().expect("a target");
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_shown() {
        for text in [
            "http://root:s3cr3t@a:1",
            "http://b:2,https://root:s3/cr3t@a:1",
            "kube:https://root:s3cr3t@a:1",
            "bench+http://root:s3cr3t@a:1",
        ] {
            let error = text.parse::<TargetSpec>().expect_err(text).to_string();
            assert!(error.starts_with("target `…@a:1`: a user"), "{error}");
            assert!(
                error.contains("--user") && !error.contains("cr3t"),
                "{error}"
            );
        }
        // Names of contexts and files are not URLs.
        for text in [
            "kubeconfig:kubernetes-admin@prod",
            "etcd:/opt/etcd@3.7.1/etcd",
        ] {
            let target: TargetSpec = text.parse().expect("a target");
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_known() {
        for text in [
            "",
            "bnech",
            "bench:",
            "bench-fsync:",
            "etcd:",
            "etcd://a:1",
            "kube:",
            "ftp://a",
            "kube:ftp://a",
        ] {
            let error = text.parse::<TargetSpec>().expect_err(text);
            assert!(error.to_string().contains("http[s]://HOST:PORT"));
        }
    }
}
