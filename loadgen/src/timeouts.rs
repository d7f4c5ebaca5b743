//! How long an endpoint may be silent: one that takes connections and says nothing must not hold a
//! command for ever.

use std::time::Duration;

use etcd_api::error::Error as EtcdError;
use tokio::time::timeout;
use tonic::Code;

/// How long a single answer may take that is not a measured one.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Returns what an etcd answers, if it does within [`ANSWERS_WITHIN`].
///
/// # Errors
/// The answer's own, or one that says that there was none.
pub async fn in_time<T, E>(answer: impl Future<Output = Result<T, E>>) -> Result<T, EtcdError>
where
    EtcdError: From<E>,
{
    match timeout(ANSWERS_WITHIN, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(EtcdError::Status {
            code: Code::DeadlineExceeded,
            message: format!("no answer within {} s", ANSWERS_WITHIN.as_secs()),
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
        assert_eq!(error.to_string(), "DeadlineExceeded: no answer within 30 s");
        let spoken = in_time(async { Ok::<_, EtcdError>(7) }).await;
        assert_eq!(spoken.expect("an answer"), 7);
    }
}
