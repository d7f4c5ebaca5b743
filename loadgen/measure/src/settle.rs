//! A server at rest: its memory is what it keeps, and not what it has yet to give back.

use std::time::{Duration, Instant};

use http::Method;

use crate::metrics::MetricsClient;
use crate::process::{Process, ProcessError};

/// A server that has no settle page is idle when it stops shrinking for a second, or after this.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);
const SETTLE_STEP: Duration = Duration::from_secs(1);
const SETTLED_BYTES: u64 = 4 << 20;

/// Asks a server to give back what it does not use; waits where it cannot be asked.
///
/// # Errors
/// When the process has ended.
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
    while begun.elapsed() < SETTLE_WITHIN {
        tokio::time::sleep(SETTLE_STEP).await;
        let now = process.memory()?.anon;
        if now.abs_diff(before) < SETTLED_BYTES {
            break;
        }
        before = now;
    }
    Ok(())
}
