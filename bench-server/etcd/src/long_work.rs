//! Runs work that takes long on a thread of its own, so that other connections of the thread that
//! received the request are still served.

use tonic::Status;

use super::Node;

/// Messages above this are encoded on a blocking thread, bytes.
pub(super) const INLINE_BYTES: u64 = 1024 * 1024;

/// Requests that read or delete more keys than this also run on a blocking thread.
pub(super) const INLINE_KEYS: u64 = 2048;

/// Runs `work` on a blocking thread. It continues when the request is cancelled, so the amount of
/// concurrent work is limited: others wait.
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
