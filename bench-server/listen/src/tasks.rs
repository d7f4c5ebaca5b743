//! What a tier runs beside its connections, for as long as it serves: accepting, caches, the store's clockwork.
//!
//! None of these tasks ends by itself. Without one that panicked a server would go on answering, and what it answers would
//! grow old in silence; so a tier tells of it, and the program ends.

use std::any::Any;
use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// Tasks that run until this is dropped.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task that is gone although its tier goes on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} {how}")]
pub struct TaskEnded {
    task: String,
    how: String,
}

impl TaskEnded {
    /// One that failed for a reason; `task` is the beginning of a sentence.
    pub fn failed(task: &str, reason: &str) -> Self {
        Self {
            task: task.to_owned(),
            how: format!("failed: {reason}"),
        }
    }
}

impl Tasks {
    /// Starts a task; `name` says what it does, as the beginning of a sentence.
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

    /// Waits until one of them ends; for ever while all are well. Nothing is lost where the wait is given up.
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
            task: task.expect("every task was given a name"),
            how,
        }
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    let text = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it does not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_is_gone_is_told_by_name() {
        let mut tasks = Tasks::default();
        tasks.spawn("the clockwork", std::future::pending());
        tasks.spawn("a cache", async { panic!("no object {}", 7) });
        let ended = tasks.ended().await.to_string();
        assert_eq!(ended, "a cache panicked: no object 7");
        tasks.spawn("the listener", async {});
        assert_eq!(tasks.ended().await.to_string(), "the listener ended");
    }
}
