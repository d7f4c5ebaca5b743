//! A client that is an external program. It reports on its standard output that it is ready, and
//! then responds to each command on its standard input with one line of JSON.
//! `scripts/oracle.d/client` is the other side.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::child::{ChildError, ChildServer, Death, next_line};

/// How long the program may take to connect and report it.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How many characters of an unexpected line are shown.
const SHOWN_CHARS: usize = 80;
/// The largest length of a key or value that is accepted. etcd's own limit of a request is far
/// below.
const LARGEST_BYTES: u32 = 256 << 20;
const READ_BYTES: usize = 256 << 10;
/// Go's settings of its garbage collector and threads. Clients are measured with the defaults.
const GO_VARIABLES: [&str; 4] = ["GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"];

/// The failure of a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program cannot be run.
    #[error(transparent)]
    Spawn(#[from] ChildError),
    /// The program ended.
    #[error(transparent)]
    Died(#[from] Death),
    /// The program did not respond in time.
    #[error("{name} did not respond within {} s; its last lines: {log}", within.as_secs())]
    Silent {
        /// The program.
        name: String,
        /// The time limit.
        within: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// The program wrote an unexpected line.
    #[error("{name} prints an unexpected line: {line}")]
    Garbage {
        /// The program.
        name: String,
        /// The line.
        line: String,
    },
    /// The program reported an error.
    #[error("{name}: {error}")]
    Failed {
        /// The program.
        name: String,
        /// Its error.
        error: String,
    },
    /// An earlier command has not been completed, so the next line may belong to it.
    #[error("{0} is still busy with an earlier command")]
    Busy(String),
}

#[derive(Deserialize)]
struct Ready {
    ready: String,
}

#[derive(Deserialize)]
struct Failed {
    error: String,
}

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct ClientProgram {
    about: String,
    child: ChildServer,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    is_busy: bool,
}

impl ClientProgram {
    /// Starts a program and waits until it is ready.
    ///
    /// # Errors
    /// [`ProgramError`] when the program cannot be run, ends, or is not ready in time.
    pub async fn start(
        name: &str,
        program: &Path,
        args: &[OsString],
    ) -> Result<Self, ProgramError> {
        let mut command = Command::new(program);
        command.args(args);
        for variable in GO_VARIABLES {
            command.env_remove(variable);
        }
        let (child, stdin, stdout) = ChildServer::spawn_with_pipes(name, command)?;
        let mut started = Self {
            about: name.to_owned(),
            child,
            stdin,
            stdout: BufReader::with_capacity(READ_BYTES, stdout),
            is_busy: true,
        };
        let Ready { ready } = started.line(READY_TIMEOUT).await?;
        started.about = ready;
        started.is_busy = false;
        Ok(started)
    }

    /// Returns the program's description of itself, as in `clientv3 3.7.1`.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Sends a command and returns the line in response.
    ///
    /// # Errors
    /// [`ProgramError`]. After [`ProgramError::Failed`], the program accepts another command.
    pub async fn ask<T: DeserializeOwned>(
        &mut self,
        command: &str,
        within: Duration,
    ) -> Result<T, ProgramError> {
        self.begin(command).await?;
        let response = self.line(within).await;
        self.is_busy = !matches!(response, Ok(_) | Err(ProgramError::Failed { .. }));
        response
    }

    /// Sends a command whose response is a line, as many objects as it announces, and another line.
    /// `objects` returns their number from the first line. Each object's key, value and revision
    /// are passed to `visit`.
    ///
    /// # Errors
    /// [`ProgramError`], or the first error of `visit`.
    pub async fn ask_objects<T: DeserializeOwned, L: DeserializeOwned, E: From<ProgramError>>(
        &mut self,
        command: &str,
        within: Duration,
        objects: impl FnOnce(&T) -> u64,
        mut visit: impl FnMut(&[u8], &[u8], i64) -> Result<(), E>,
    ) -> Result<T, E> {
        self.begin(command).await?;
        let announced = match self.line::<T>(within).await {
            Err(error @ ProgramError::Failed { .. }) => {
                self.is_busy = false;
                return Err(error.into());
            }
            announced => announced?,
        };
        let number = objects(&announced);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for _ in 0..number {
            let read = timeout(within, self.object(&mut key, &mut value)).await;
            let revision = match read {
                Ok(Ok(revision)) => revision,
                Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(self.garbage(&error.to_string()).into());
                }
                Ok(Err(_)) => return Err(ProgramError::Died(self.child.ends().await).into()),
                Err(_) => return Err(self.silent(within).into()),
            };
            visit(&key, &value, revision)?;
        }
        self.line::<L>(within).await?;
        self.is_busy = false;
        Ok(announced)
    }

    async fn begin(&mut self, command: &str) -> Result<(), ProgramError> {
        if self.is_busy {
            return Err(ProgramError::Busy(self.child.name().to_owned()));
        }
        self.is_busy = true;
        let line = format!("{command}\n");
        match self.stdin.write_all(line.as_bytes()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.child.ends().await.into()),
        }
    }

    async fn line<T: DeserializeOwned>(&mut self, within: Duration) -> Result<T, ProgramError> {
        let mut line = Vec::new();
        match timeout(within, next_line(&mut self.stdout, &mut line)).await {
            Err(_) => return Err(self.silent(within)),
            Ok(Ok(true)) => {}
            Ok(_) => return Err(self.child.ends().await.into()),
        }
        if let Ok(Failed { error }) = serde_json::from_slice(&line) {
            let name = self.child.name().to_owned();
            return Err(ProgramError::Failed { name, error });
        }
        serde_json::from_slice(&line).map_err(|_| self.garbage(&String::from_utf8_lossy(&line)))
    }

    /// Reads one object: lengths of key and value, revision, key, value.
    async fn object(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> io::Result<i64> {
        let from = &mut self.stdout;
        let lengths = [from.read_u32_le().await?, from.read_u32_le().await?];
        let revision = from.read_i64_le().await?;
        for (bytes, length) in [(key, lengths[0]), (value, lengths[1])] {
            if length > LARGEST_BYTES {
                let text = format!("an object of {length} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            bytes.resize(length as usize, 0);
            from.read_exact(bytes).await?;
        }
        Ok(revision)
    }

    fn garbage(&self, line: &str) -> ProgramError {
        let shown = line.escape_debug().to_string();
        ProgramError::Garbage {
            name: self.child.name().to_owned(),
            line: shown.chars().take(SHOWN_CHARS).collect(),
        }
    }

    fn silent(&self, within: Duration) -> ProgramError {
        ProgramError::Silent {
            name: self.child.name().to_owned(),
            within,
            log: self.child.last_lines(),
        }
    }
}

#[cfg(test)]
mod tests;
