//! Frames made on another thread while the connection writes those before: to encode a list takes as long as to
//! send it, and gzip many times as long.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::wire::frame::Frame;

/// Frames that are made in one go. As many may wait for the connection, so a list has twice that at most.
const BATCH: usize = 2;

/// A body frame by frame, which takes work to make.
pub trait Frames: Send + 'static {
    /// The next frame; `None` behind the last.
    fn next_frame(&mut self) -> Option<Frame>;

    /// Whether the last frame was made.
    fn is_over(&self) -> bool;
}

/// A body of which the next frames are being made. Its first one is made where it is asked for, so that a short
/// list needs no other thread. Dropped, it makes no more than the frames under way.
pub struct Ahead<F> {
    made: VecDeque<Frame>,
    source: Source<F>,
}

enum Source<F> {
    /// Nothing was asked for yet.
    Here(Box<F>),
    /// On another thread.
    Away(JoinHandle<(Box<F>, VecDeque<Frame>)>),
    /// Lost with the server's other threads, which are stopping: to end here would be a lie.
    Stopped,
    Over,
}

impl<F: Frames> Ahead<F> {
    /// Nothing is made yet.
    pub(crate) fn new(frames: F) -> Self {
        Self {
            made: VecDeque::new(),
            source: Source::Here(Box::new(frames)),
        }
    }

    /// Whether every frame was handed out.
    pub(crate) fn is_over(&self) -> bool {
        self.made.is_empty() && matches!(self.source, Source::Over)
    }

    /// The next frame; `None` behind the last.
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        if let Some(frame) = self.made.pop_front() {
            return Poll::Ready(Some(frame));
        }
        let (frames, made) = match std::mem::replace(&mut self.source, Source::Over) {
            Source::Over => return Poll::Ready(None),
            Source::Stopped => {
                self.source = Source::Stopped;
                return Poll::Pending;
            }
            Source::Here(mut frames) => {
                let first = frames.next_frame();
                (frames, first.into_iter().collect())
            }
            Source::Away(mut making) => match Pin::new(&mut making).poll(context) {
                Poll::Pending => {
                    self.source = Source::Away(making);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(made)) => made,
                Poll::Ready(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_stopped) => {
                        self.source = Source::Stopped;
                        return Poll::Pending;
                    }
                },
            },
        };
        self.made = made;
        if !frames.is_over() {
            self.source = Source::Away(spawn_blocking(move || batch(frames)));
        }
        Poll::Ready(self.made.pop_front())
    }
}

fn batch<F: Frames>(mut frames: Box<F>) -> (Box<F>, VecDeque<Frame>) {
    let mut made = VecDeque::with_capacity(BATCH);
    while made.len() < BATCH
        && let Some(frame) = frames.next_frame()
    {
        made.push_back(frame);
    }
    (frames, made)
}

impl<F> fmt::Debug for Ahead<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ahead({} frames)", self.made.len())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use bytes::{Buf, Bytes};

    use super::*;

    struct Numbers(std::ops::Range<u8>);

    impl Frames for Numbers {
        fn next_frame(&mut self) -> Option<Frame> {
            let next = self.0.next()?;
            Some(Bytes::from(vec![next]).into())
        }

        fn is_over(&self) -> bool {
            self.0.is_empty()
        }
    }

    #[tokio::test]
    async fn every_frame_comes_once_and_in_order() {
        for count in [0, 1, 2, 3, 4, 5, 100] {
            let mut ahead = Ahead::new(Numbers(0..count));
            let mut seen = Vec::new();
            while let Some(mut frame) = poll_fn(|context| ahead.poll_frame(context)).await {
                seen.push(frame.get_u8());
            }
            assert_eq!(seen, Vec::from_iter(0..count));
            assert!(ahead.is_over());
        }
    }

    #[tokio::test]
    async fn a_short_list_needs_no_other_thread() {
        let mut ahead = Ahead::new(Numbers(0..1));
        assert!(!ahead.is_over(), "nothing was sent yet");
        let first = ahead.poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(matches!(first, Poll::Ready(Some(_))));
        assert!(ahead.is_over());
    }

    #[tokio::test]
    #[should_panic(expected = "a broken frame")]
    async fn a_panic_is_not_the_end_of_a_list() {
        struct Broken(u8);
        impl Frames for Broken {
            fn next_frame(&mut self) -> Option<Frame> {
                self.0 += 1;
                assert!(self.0 < 2, "a broken frame");
                Some(Bytes::from_static(b"fine").into())
            }
            fn is_over(&self) -> bool {
                false
            }
        }
        let mut ahead = Ahead::new(Broken(0));
        while poll_fn(|context| ahead.poll_frame(context)).await.is_some() {}
    }
}
