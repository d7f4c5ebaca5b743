//! Answers that are cut off when they are not taken in time.
//!
//! hyper asks a body for its next piece once there is room for it, so a body never hears of a client that has
//! stopped reading: the limit must be kept by whoever polls the connection. Each HTTP/1.1 connection and each
//! HTTP/2 stream is a task. The body sets a limit for the task that sends it and lifts it when it is dropped;
//! a task that is over its limit is dropped itself, with everything that it holds. That closes the
//! connection, or resets the stream: the client sees that the answer has no end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::{Instant, Sleep, sleep_until};

tokio::task_local! {
    static TASK: Arc<Task>;
}

/// What a sending task and its answer share. Both run on one thread, so the lock is never contended.
#[derive(Debug, Default)]
struct Task(Mutex<Limits>);

#[derive(Debug, Default)]
struct Limits {
    until: Option<Instant>,
    exceeded: bool,
}

/// The time until which an answer must have been handed to the connection; lifted when dropped.
#[derive(Debug)]
pub struct TimeLimit(Arc<Task>);

impl TimeLimit {
    /// Sets the limit of the answer that the current task is going to send. `None` outside of a connection.
    pub fn set(until: Instant) -> Option<Self> {
        let task = TASK.try_with(Arc::clone).ok()?;
        *task.0.lock() = Limits {
            until: Some(until),
            exceeded: false,
        };
        Some(Self(task))
    }

    /// Whether the answer was cut off.
    pub fn is_exceeded(&self) -> bool {
        self.0.0.lock().exceeded
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        self.0.0.lock().until = None;
    }
}

pin_project! {
    /// A sending task that is given up when its answer's limit has passed.
    #[derive(Debug)]
    pub(super) struct Limited<F> {
        #[pin]
        sending: TaskLocalFuture<Arc<Task>, F>,
        task: Arc<Task>,
        // Made when a limit is first waited for, and used again for those after it.
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future> Limited<F> {
    pub(super) fn new(sending: F) -> Self {
        let task = Arc::new(Task::default());
        Self {
            sending: TASK.scope(task.clone(), sending),
            task,
            timer: None,
        }
    }
}

impl<F: Future> Future for Limited<F> {
    /// `None` when it was given up.
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.sending.poll(context) {
            return Poll::Ready(Some(output));
        }
        let Some(until) = this.task.0.lock().until else {
            return Poll::Pending;
        };
        let timer = this
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        ready!(timer.as_mut().poll(context));
        this.task.0.lock().exceeded = true;
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_task_over_its_limit_is_given_up() {
        let started = Instant::now();
        let answer = Arc::new(Mutex::new(None));
        let sent = answer.clone();
        let ended = Limited::new(async move {
            *sent.lock() = TimeLimit::set(started + LIMIT);
            std::future::pending::<()>().await;
        });
        assert_eq!(ended.await, None);
        assert_eq!(started.elapsed(), LIMIT);
        assert!(answer.lock().as_ref().is_some_and(TimeLimit::is_exceeded));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_over_has_no_limit_and_the_next_has_its_own() {
        let started = Instant::now();
        let ended = Limited::new(async move {
            let first = TimeLimit::set(started + LIMIT).expect("in a task");
            tokio::time::sleep(LIMIT / 2).await;
            drop(first);
            tokio::time::sleep(LIMIT).await;
            let second = TimeLimit::set(Instant::now() + LIMIT).expect("in a task");
            tokio::time::sleep(LIMIT / 2).await;
            second.is_exceeded()
        });
        assert_eq!(ended.await, Some(false));
        assert_eq!(started.elapsed(), 2 * LIMIT);
        assert!(TimeLimit::set(started).is_none(), "nothing is sent here");
    }
}
