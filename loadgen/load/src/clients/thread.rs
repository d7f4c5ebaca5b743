//! Threads with a runtime of their own, for work whose clock and cache no other work may share.

use std::io;
use std::thread;

use etcd_api::error::Error as EtcdError;
use kube_api::client::KubeError;
use tokio::runtime;
use tokio::sync::oneshot;

/// The failure of a thread.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The thread or its runtime could not be started.
    #[error("cannot start the client thread `{name}`: {source}")]
    Start {
        /// The thread's name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The thread ended without a result.
    #[error("the client thread `{name}` ended unexpectedly")]
    Ended {
        /// The thread's name.
        name: String,
    },
}

impl ThreadError {
    /// Returns the error of a thread that ended.
    pub(crate) fn ended(name: &str) -> Self {
        Self::Ended {
            name: name.to_owned(),
        }
    }
}

impl From<ThreadError> for EtcdError {
    fn from(error: ThreadError) -> Self {
        Self::Client(error.to_string())
    }
}

impl From<ThreadError> for KubeError {
    fn from(error: ThreadError) -> Self {
        Self::Client(error.to_string())
    }
}

/// Starts a thread that connects, reports it, and then works. Returns when it has connected.
///
/// # Errors
/// The error of `connect`, or that of `broken` for a thread that could not start or ended early.
pub(crate) async fn connected<C: 'static, E: Send + 'static>(
    name: &str,
    broken: fn(ThreadError) -> E,
    connect: impl AsyncFnOnce() -> Result<C, E> + Send + 'static,
    work: impl AsyncFnOnce(C) + Send + 'static,
) -> Result<(), E> {
    let body = async move |result: oneshot::Sender<Result<(), E>>| match connect().await {
        Ok(connection) => {
            // Otherwise the caller has gone.
            if result.send(Ok(())).is_ok() {
                work(connection).await;
            }
        }
        Err(error) => {
            result.send(Err(error)).ok();
        }
    };
    let cannot_start = {
        let name = name.to_owned();
        move |source| {
            let name = name.clone();
            broken(ThreadError::Start { name, source })
        }
    };
    let connected = start(name, cannot_start, body)?.await;
    connected.unwrap_or_else(|_| Err(broken(ThreadError::ended(name))))
}

/// Starts a thread that runs `body`, and returns the receiver of its result. If the thread ends
/// without a result, the receiver fails.
///
/// # Errors
/// The error of `failed` when there is no thread. If there is no runtime, that error is the result.
pub(crate) fn start<T: Send + 'static, E: Send + 'static>(
    name: &str,
    failed: impl Fn(io::Error) -> E + Clone + Send + 'static,
    body: impl AsyncFnOnce(oneshot::Sender<Result<T, E>>) + Send + 'static,
) -> Result<oneshot::Receiver<Result<T, E>>, E> {
    let (sender, receiver) = oneshot::channel();
    let no_runtime = failed.clone();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(body(sender)),
                Err(error) => {
                    sender.send(Err(no_runtime(error))).ok();
                }
            }
        })
        .map_err(failed)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_says_when_it_has_connected_and_works_on() {
        let (done, worked) = oneshot::channel();
        let connect = async || Ok(7);
        let work = async move |connection| done.send(connection).unwrap_or_default();
        let connected = connected("test", |broken| broken.to_string(), connect, work).await;
        assert_eq!(connected, Ok(()));
        assert_eq!(worked.await, Ok(7));
    }

    #[tokio::test]
    async fn a_thread_that_cannot_connect_says_why_and_does_nothing() {
        let connect = async || Err::<(), _>("refused".to_owned());
        let work = async |()| panic!("it is not connected");
        let refused = connected("test", |broken| broken.to_string(), connect, work).await;
        assert_eq!(refused, Err("refused".to_owned()));
    }

    #[tokio::test]
    async fn a_thread_that_ends_while_it_connects_is_named() {
        let connect = async || -> Result<(), ThreadError> { panic!("this panic is the test's") };
        let work = async |()| panic!("it is not connected");
        let ended = connected("test", |broken| broken, connect, work).await;
        let ended = ended.expect_err("it says nothing").to_string();
        assert_eq!(ended, "the client thread `test` ended unexpectedly");
    }
}
