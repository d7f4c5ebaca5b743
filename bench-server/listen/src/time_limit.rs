//! Aborts responses that are not sent in time.
//!
//! hyper polls a body for its next frame only when there is room for it, so a body does not notice
//! a client that has stopped reading. The task that polls the connection must therefore enforce the
//! limit. Each HTTP/1.1 connection and each HTTP/2 stream is a task. The body sets a limit for the
//! task that sends it, and removes the limit when dropped. A task over its limit is dropped with
//! everything that it holds. That closes the connection, or resets the stream, so the client sees
//! that the response is incomplete.

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

/// The limits shared by a sending task and its response. Both run on one thread, so the lock is
/// never contended.
#[derive(Debug, Default)]
struct Task(Mutex<Limits>);

#[derive(Debug, Default)]
struct Limits {
    until: Option<Instant>,
    exceeded: bool,
}

/// The time by which a response must be passed to the connection. The limit is removed when this is
/// dropped.
#[derive(Debug)]
pub struct TimeLimit(Arc<Task>);

impl TimeLimit {
    /// Sets the limit of the response that the current task will send. `None` outside a connection.
    pub fn set(until: Instant) -> Option<Self> {
        let task = TASK.try_with(Arc::clone).ok()?;
        *task.0.lock() = Limits {
            until: Some(until),
            exceeded: false,
        };
        Some(Self(task))
    }

    /// Returns whether the response was aborted.
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
    /// A sending task that is aborted when its response's limit has passed.
    #[derive(Debug)]
    pub(super) struct TimeLimited<F> {
        #[pin]
        sending: TaskLocalFuture<Arc<Task>, F>,
        task: Arc<Task>,
        // Created for the first limit, and reused for later ones.
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future> TimeLimited<F> {
    pub(super) fn new(sending: F) -> Self {
        let task = Arc::new(Task::default());
        Self {
            sending: TASK.scope(task.clone(), sending),
            task,
            timer: None,
        }
    }
}

impl<F: Future> Future for TimeLimited<F> {
    /// `None` if the task was aborted.
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
    async fn a_task_over_its_limit_is_aborted() {
        let started = Instant::now();
        let answer = Arc::new(Mutex::new(None));
        let sent = answer.clone();
        let ended = TimeLimited::new(async move {
            *sent.lock() = TimeLimit::set(started + LIMIT);
            std::future::pending::<()>().await;
        });
        assert_eq!(ended.await, None);
        assert_eq!(started.elapsed(), LIMIT);
        assert!(answer.lock().as_ref().is_some_and(TimeLimit::is_exceeded));
    }

    #[tokio::test(start_paused = true)]
    async fn each_response_has_its_own_limit() {
        let started = Instant::now();
        let ended = TimeLimited::new(async move {
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
