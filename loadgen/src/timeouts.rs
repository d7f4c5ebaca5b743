//! The timeout of responses that are not measured, so that an endpoint that accepts connections and
//! never responds cannot block a command for ever.

use std::time::Duration;

use etcd_api::error::Error as EtcdError;
use tokio::time::timeout;
use tonic::Code;

/// The longest time that a single response that is not measured may take.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns an etcd's response, if it completes within [`RESPONSE_TIMEOUT`].
///
/// # Errors
/// The error of the request, or [`Code::DeadlineExceeded`] if there was no response in time.
pub async fn in_time<T, E>(answer: impl Future<Output = Result<T, E>>) -> Result<T, EtcdError>
where
    EtcdError: From<E>,
{
    match timeout(RESPONSE_TIMEOUT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(EtcdError::Status {
            code: Code::DeadlineExceeded,
            message: format!("no response within {} s", RESPONSE_TIMEOUT.as_secs()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_ends_and_is_told_from_an_answer() {
        let silent = std::future::pending::<Result<(), EtcdError>>();
        let error = in_time(silent).await.expect_err("nobody answers");
        assert_eq!(
            error.to_string(),
            "DeadlineExceeded: no response within 30 s"
        );
        let spoken = in_time(async { Ok::<_, EtcdError>(7) }).await;
        assert_eq!(spoken.expect("an answer"), 7);
    }
}
