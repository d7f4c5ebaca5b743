//! The background tasks of a tier: accepting, caches, leases, compaction.
//!
//! None of these tasks ends by itself. If one panicked unnoticed, the server would continue with
//! increasingly stale responses. The tier therefore reports the end of a task, and the program
//! ends.

use std::any::Any;
use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// A set of tasks that run until it is dropped.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task that ended although its tier is running.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} {how}")]
pub struct TaskEnded {
    task: String,
    how: String,
}

impl TaskEnded {
    /// Returns the end of a task that failed for a reason; `task` is the subject of a sentence.
    pub fn failed(task: &str, reason: &str) -> Self {
        Self {
            task: task.to_owned(),
            how: format!("failed: {reason}"),
        }
    }
}

impl Tasks {
    /// Starts a task; `name` describes it, as the subject of a sentence.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = self.running.spawn(task);
        self.names.insert(handle.id(), name.into());
    }

    /// Waits until a task ends, which does not happen in normal operation. Cancel safe.
    pub async fn ended(&mut self) -> TaskEnded {
        let Some(ended) = self.running.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let (id, how) = match ended {
            Ok((id, ())) => (id, "ended".to_owned()),
            Err(error) => {
                let id = error.id();
                match error.try_into_panic() {
                    Ok(panic) => (id, format!("panicked: {}", message(&*panic))),
                    Err(_) => (id, "was cancelled".to_owned()),
                }
            }
        };
        let task = self.names.remove(&id);
        TaskEnded {
            task: task.expect("every task has a name"),
            how,
        }
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    let text = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_ended_task_is_reported_by_name() {
        let mut tasks = Tasks::default();
        tasks.spawn("the clockwork", std::future::pending());
        tasks.spawn("a cache", async { panic!("no object {}", 7) });
        let ended = tasks.ended().await.to_string();
        assert_eq!(ended, "a cache panicked: no object 7");
        tasks.spawn("the listener", async {});
        assert_eq!(tasks.ended().await.to_string(), "the listener ended");
    }
}
