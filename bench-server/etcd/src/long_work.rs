//! Runs long work on a blocking thread, so that the thread that received the request still serves
//! its other connections.

use tonic::Status;

use super::Node;

/// Maximum size of a message that is encoded on the connection's thread, bytes. Larger ones are
/// encoded on a blocking thread.
pub(super) const INLINE_BYTES: u64 = 1024 * 1024;

/// Maximum number of keys that a request reads or deletes on the connection's thread. Larger
/// requests also run on a blocking thread.
pub(super) const INLINE_KEYS: u64 = 2048;

/// Runs `work` on a blocking thread. The work continues when the request is cancelled, so the
/// amount of concurrent work is limited and further work waits.
///
/// # Errors
/// `Internal` if the work panics.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    node: &Node,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let permit = node.admission.admit_scan().await;
    let working = tokio::task::spawn_blocking(move || {
        let _until_done = permit;
        work()
    });
    working
        .await
        .map_err(|e| Status::internal(format!("the request's work stopped: {e}")))
}
