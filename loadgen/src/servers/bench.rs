//! Starts our own server: its etcd tier, and once that is seeded its HTTP tier, whose cache is
//! filled from it.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use etcd_api::client::config::ClientConfig;
use http::Method;
use kube_api::client::KubeAccess;
use load::child::{ChildError, ChildServer};
use measure::MetricsClient;
use report::result::ServerSetup;
use workloads::strategy::{EtcdResponse, Strategy};

use super::etcd::data_folder;
use super::launcher::{
    CACHE_READY_TIMEOUT, Launcher, QUOTA_BYTES, READY_TIMEOUT, StartError, shown, spawn_child,
    status, words,
};
use super::own_program::is_given;
use super::ports::free_url;
use super::running::{OnDisk, Running};
use crate::environment::allocator;
use crate::timeouts::in_time;

/// The interval between checks of whether the HTTP tier is ready.
const READY_STEP: Duration = Duration::from_millis(20);

impl Launcher {
    /// Starts our etcd tier. If `fsync` is given, it keeps a log in a temporary folder, and `fsync`
    /// says whether its writes wait for the disk.
    pub(super) async fn start_bench(
        &self,
        strategy: Strategy,
        fsync: Option<bool>,
    ) -> Result<Running, StartError> {
        let encoding = match strategy.etcd_response() {
            Some(EtcdResponse::Buffered) => "buffered",
            _ => "incremental",
        };
        let quota = QUOTA_BYTES.to_string();
        // A server that is restarted must have the same address.
        let listen = match fsync {
            Some(_) => free_url()?,
            None => "http://127.0.0.1:0".to_owned(),
        };
        let (program, before) = self.own_program.servers();
        let mut args = words(before);
        args.extend(words(&[
            "--listen-client-urls",
            &listen,
            "--enable-debug-endpoints",
        ]));
        let given = &self.own_program.given.flags;
        // The server accepts a flag once. The user's flag overrides these, except where the run
        // relies on its own value: the run has to find the server again, and the target says
        // whether there is a log.
        let settings = [
            ("--range-encoding", encoding),
            ("--quota-backend-bytes", &quota),
            ("--log-level", "warn"),
        ];
        for (name, value) in settings {
            if !is_given(name, given) {
                args.extend(words(&[name, value]));
            }
        }
        let folder = fsync.map(|_| data_folder()).transpose()?;
        if let (Some(folder), Some(fsync)) = (&folder, fsync) {
            args.push("--data-dir".into());
            args.push(folder.path().as_os_str().to_owned());
            args.extend(words(&["--fsync", if fsync { "always" } else { "never" }]));
        }
        args.extend(given.iter().map(OsString::from));
        let mut child = spawn_child("etcd", &self.own_program, program, &args)?;
        let url = child.ready_line("ready etcd=", READY_TIMEOUT).await?;
        let config = ClientConfig::new(&url)?;
        let version = in_time(status(&config)).await?.version;
        Ok(Running {
            etcd: Some(config),
            kube_url: None,
            kube_access: KubeAccess::default(),
            setup: ServerSetup {
                program: format!(
                    "bench-server {} (as etcd {version})",
                    env!("CARGO_PKG_VERSION")
                ),
                flags: shown(&args),
                // The server is the same program with the same settings.
                allocator: Some(allocator()),
                fsync,
                quota_bytes: Some(QUOTA_BYTES),
                ..ServerSetup::default()
            },
            unary_encoding: encoding,
            processes: vec![child],
            on_disk: folder.map(|folder| OnDisk {
                folder,
                program: program.to_owned(),
                args,
            }),
            own_program: self.own_program.clone(),
        })
    }
}

impl Running {
    /// Starts our HTTP tier in front of the etcd tier, with these flags of a case. Returns once its
    /// cache holds the seeded objects.
    ///
    /// # Errors
    /// [`StartError::Child`].
    pub async fn start_kube(&mut self, flags: &[String]) -> Result<(), StartError> {
        if self.kube_url.is_some() {
            return Ok(());
        }
        let endpoints = self.etcd.iter().flat_map(|config| &config.endpoints);
        let endpoints: Vec<_> = endpoints
            .map(|uri| uri.to_string().trim_end_matches('/').to_owned())
            .collect();
        let (program, before) = self.own_program.servers();
        let mut args = words(before);
        args.extend(words(&[
            "--listen-kube-urls",
            "http://127.0.0.1:0",
            "--etcd-servers",
            &endpoints.join(","),
            "--enable-debug-endpoints",
        ]));
        // The server accepts a flag once. No case has a flag of the user's.
        let given = &self.own_program.given.kube_flags;
        if !is_given("--log-level", given) && !is_given("--log-level", flags) {
            args.extend(words(&["--log-level", "warn"]));
        }
        args.extend(flags.iter().chain(given).map(OsString::from));
        let mut child = spawn_child("kube", &self.own_program, program, &args)?;
        let url = child.ready_line("ready kube=", READY_TIMEOUT).await?;
        let url = url.trim_end_matches('/').to_owned();
        cache_filled(&url, &mut child).await?;
        self.kube_url = Some(url);
        self.setup.flags.push("+".to_owned());
        self.setup.flags.extend(shown(&args));
        self.processes.push(child);
        Ok(())
    }
}

/// Waits until an HTTP tier reports that its cache is filled, or is dead.
async fn cache_filled(url: &str, child: &mut ChildServer) -> Result<(), StartError> {
    let begun = Instant::now();
    let not_filled = |reason: String, child: &ChildServer| StartError::Cache {
        url: url.to_owned(),
        reason,
        log: child.last_lines(),
    };
    let mut client = MetricsClient::new(url).map_err(|e| not_filled(e.to_string(), child))?;
    loop {
        let Err(error) = client.text(Method::GET, "/readyz").await else {
            return Ok(());
        };
        if let Some(death) = child.died().await {
            return Err(ChildError::Died(death).into());
        }
        if begun.elapsed() > CACHE_READY_TIMEOUT {
            return Err(not_filled(error.to_string(), child));
        }
        tokio::time::sleep(READY_STEP).await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn a_tier_that_dies_while_its_cache_fills_is_told_with_its_last_words() {
        let args = words(&["-c", "echo no room for the cache >&2; exit 3"]);
        let mut child = ChildServer::spawn("kube", Path::new("/bin/sh"), &args).expect("a shell");
        let nobody = "http://127.0.0.1:1";
        let error = cache_filled(nobody, &mut child).await;
        let error = error.expect_err("it never gets ready");
        assert!(
            matches!(&error, StartError::Child(ChildError::Died(_))),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("exit status: 3") && text.contains("no room for the cache"),
            "{text}"
        );
    }
}
