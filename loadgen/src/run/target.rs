//! What is measured, and what it is called.

use anyhow::anyhow;

use crate::exit::Failure;
use crate::servers::target_spec::TargetSpec;
use crate::timeouts::ANSWERS_WITHIN;

/// A target and what it is called in results.
#[derive(Debug, Clone)]
pub struct Target {
    /// As it was written, or `etcd-VERSION` for a binary.
    pub name: String,
    /// What it is.
    pub spec: TargetSpec,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// What a foreign endpoint answers when it is first looked at. One that takes connections and says
/// nothing is refused.
pub(super) async fn answered<T>(
    target: &Target,
    looked: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let looked = tokio::time::timeout(ANSWERS_WITHIN, looked).await;
    looked.unwrap_or_else(|_| {
        let within = ANSWERS_WITHIN.as_secs();
        Err(unusable(target, format!("no answer within {within} s")))
    })
}

/// An error that ends the run with exit code 2, naming the target.
pub(super) fn unusable(target: &Target, error: impl std::fmt::Display) -> Failure {
    Failure::usage(anyhow!("{}: {error}", target.name))
}
