//! The baseline of a case: a process of this program that sends the same number of bytes as a list,
//! from one contiguous buffer, over the HTTP that our servers use and over a plain socket. It is
//! the same for every target, and its memory is freed when it ends.

use std::net::SocketAddr;

use load::child::ChildServer;

use super::launcher::{Launcher, READY_TIMEOUT, StartError, spawn_child, words};

/// The hidden command's name.
pub const COMMAND: &str = "serve-baseline";

/// A running baseline server. Dropping it kills it.
#[derive(Debug)]
pub struct BaselineServer {
    child: ChildServer,
    /// The URL at which any path returns the bytes.
    pub url: String,
    /// The address at which the bytes are sent for any received byte.
    pub socket: SocketAddr,
}

impl Launcher {
    /// Starts a baseline of this many bytes, on the servers' CPUs.
    ///
    /// # Errors
    /// [`StartError`] if it does not become ready.
    pub async fn start_baseline(&self, bytes: u64) -> Result<BaselineServer, StartError> {
        let args = words(&[COMMAND, &bytes.to_string()]);
        let mut child = spawn_child("baseline", &self.own_program, &self.own_program.path, &args)?;
        let ready = child.ready_line("ready baseline=", READY_TIMEOUT).await?;
        let addresses = ready.split_once(" socket=");
        let addresses = addresses.and_then(|(url, socket)| Some((url, socket.parse().ok()?)));
        let Some((url, socket)) = addresses else {
            let text = format!("a baseline that is ready at `{ready}`");
            return Err(std::io::Error::other(text).into());
        };
        Ok(BaselineServer {
            url: url.to_owned(),
            socket,
            child,
        })
    }
}

impl BaselineServer {
    /// Returns its PID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Kills it and waits until its memory is freed.
    pub async fn stop(self) {
        self.child.stop().await;
    }
}
