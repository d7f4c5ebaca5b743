//! Waits until a server is idle, so that its memory is what it keeps, without what it has yet to
//! release.

use std::time::{Duration, Instant};

use http::Method;

use crate::metrics::MetricsClient;
use crate::process::{Process, ProcessError};

/// Without a settle page, a server is idle once its memory changes by less than [`SETTLED_BYTES`]
/// in a second, or after this time.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
const SETTLE_STEP: Duration = Duration::from_secs(1);
const SETTLED_BYTES: u64 = 4 << 20;

/// Asks a server to release unused memory, or waits until its memory is stable if it has no page
/// for that.
///
/// # Errors
/// If the process has ended.
pub async fn settle(
    process: &Process,
    client: Option<&mut MetricsClient>,
) -> Result<(), ProcessError> {
    if let Some(client) = client
        && client.text(Method::POST, "/debug/settle").await.is_ok()
    {
        return Ok(());
    }
    let begun = Instant::now();
    let mut before = process.memory()?.anon;
    while begun.elapsed() < SETTLE_TIMEOUT {
        tokio::time::sleep(SETTLE_STEP).await;
        let now = process.memory()?.anon;
        if now.abs_diff(before) < SETTLED_BYTES {
            break;
        }
        before = now;
    }
    Ok(())
}
