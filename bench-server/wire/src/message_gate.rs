//! A request body whose large messages wait for memory before they are read.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use memory::request_room::{self, NoRoom, Reserved};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;

use super::grpc::{COMPRESSED, PREFIX_BYTES};

/// Time for a message that holds memory to arrive: an apiserver's for a whole request.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time in which some of it must arrive.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes that gzip makes of one.
const GZIP_MAX_RATIO: usize = 1_032;

/// Waits for the memory of a message.
type Reservation = dyn Future<Output = Result<Option<Reserved>, NoRoom>> + Send;

/// A body of gRPC messages. A large message is passed on once [`request_room`] has memory for it.
pub struct MessageGate<B> {
    body: B,
    /// Whether the memory of a message is held until the body is dropped, not only until the next
    /// frame is asked for.
    is_unary: bool,
    /// Size above which the reader rejects messages, bytes: that of a compressed message once it is
    /// decompressed.
    limit_bytes: usize,
    /// Bytes that are held back, from the prefix of a message on.
    held: Bytes,
    position: Position,
    waiting: Option<Pin<Box<Reservation>>>,
    /// The memory of the message that is passed on.
    room: Option<Box<Room>>,
}

/// The memory of a message, and the times until it must go on and be whole.
struct Room {
    _reserved: Reserved,
    timer: Pin<Box<Sleep>>,
    end: Instant,
}

impl Room {
    fn new(reserved: Reserved) -> Self {
        Self {
            _reserved: reserved,
            timer: Box::pin(sleep(PROGRESS_TIMEOUT)),
            end: Instant::now() + MESSAGE_TIMEOUT,
        }
    }

    /// Records that some of the message has arrived.
    fn record_progress(&mut self) {
        let next = Instant::now() + PROGRESS_TIMEOUT;
        self.timer.as_mut().reset(next.min(self.end));
    }
}

/// A position in a sequence of messages.
#[derive(Debug, Default)]
struct Position {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix that were read.
    read: usize,
    /// Remaining bytes of the message, once its prefix was read.
    left: usize,
}

impl Position {
    /// Advances by the prefix of a message or its rest, whichever comes next, and returns the rest
    /// of `bytes` and, behind a prefix, the message's size in memory.
    fn advance<'b>(&mut self, bytes: &'b [u8], limit_bytes: usize) -> (&'b [u8], Option<usize>) {
        if self.left > 0 {
            let count = self.left.min(bytes.len());
            self.left -= count;
            return (&bytes[count..], None);
        }
        let count = (PREFIX_BYTES - self.read).min(bytes.len());
        self.prefix[self.read..self.read + count].copy_from_slice(&bytes[..count]);
        self.read += count;
        if self.read < PREFIX_BYTES {
            return (&[], None);
        }
        self.read = 0;
        let [flag, length @ ..] = self.prefix;
        self.left = u32::from_be_bytes(length) as usize;
        let size = match flag {
            COMPRESSED => {
                let decompressed = self.left.saturating_mul(GZIP_MAX_RATIO);
                decompressed.min(limit_bytes).saturating_add(self.left)
            }
            _ => self.left,
        };
        (&bytes[count..], Some(size))
    }
}

impl<B> MessageGate<B> {
    /// Returns the body of a single message, whose reader rejects messages of more than
    /// `limit_bytes`. It holds the message's memory until it is dropped.
    pub fn unary(body: B, limit_bytes: usize) -> Self {
        Self::new(body, true, limit_bytes)
    }

    /// Returns a body of any number of messages, likewise. It holds the memory of a message until
    /// its reader asks for more.
    pub fn stream(body: B, limit_bytes: usize) -> Self {
        Self::new(body, false, limit_bytes)
    }

    fn new(body: B, is_unary: bool, limit_bytes: usize) -> Self {
        Self {
            body,
            is_unary,
            limit_bytes,
            held: Bytes::new(),
            position: Position::default(),
            waiting: None,
            room: None,
        }
    }

    /// Passes on what needs no more memory. Holds back the rest, from a large message on.
    fn pass(&mut self, data: Bytes) -> Bytes {
        let mut rest = &data[..];
        while !rest.is_empty() {
            let (behind, message) = self.position.advance(rest, self.limit_bytes);
            rest = behind;
            if message.is_some() && !self.is_unary {
                // The reader of a stream has handled one message when the next begins.
                self.room = None;
            }
            // What is too large is rejected without being read.
            let message = message.filter(|_| self.position.left <= self.limit_bytes);
            if let Some(bytes) = message.filter(|it| *it as u64 > request_room::UNCOUNTED_BYTES) {
                self.waiting = Some(Box::pin(request_room::reserve(bytes as u64)));
                break;
            }
        }
        if rest.is_empty() {
            return data;
        }
        // The prefix may have been passed on already, in part or whole: what follows waits.
        let passed = data.len() - rest.len();
        self.held = data.slice(passed..);
        data.slice(..passed)
    }
}

impl<B> MessageGate<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Returns the next frame of the body, or its end, which is an error if it is not orderly.
    fn poll_body(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Frame<Bytes>, Option<Status>>> {
        if let Some(room) = &mut self.room
            && self.position.left > 0
            && room.timer.as_mut().poll(context).is_ready()
        {
            let (progress, whole) = (PROGRESS_TIMEOUT.as_secs(), MESSAGE_TIMEOUT.as_secs());
            let text = format!(
                "the request's message did not go on within {progress} s, or was not whole within {whole} s"
            );
            return Poll::Ready(Err(Some(Status::deadline_exceeded(text))));
        }
        let next = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match next {
            Some(Ok(frame)) => {
                if let Some(room) = &mut self.room {
                    room.record_progress();
                }
                Ok(frame)
            }
            Some(Err(error)) if self.is_unary => {
                let error = error.into();
                let text = format!("request body ended early: {error}");
                Err(Some(Status::cancelled(text)))
            }
            Some(Err(error)) => Err(Some(Status::from_error(error.into()))),
            None => Err(None),
        })
    }
}

impl<B> Body for MessageGate<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        // The reader of a stream has handled a whole message when it asks for more.
        if !this.is_unary && this.position.left == 0 {
            this.room = None;
        }
        if let Some(waiting) = &mut this.waiting {
            let reserved = ready!(waiting.as_mut().poll(context));
            this.waiting = None;
            match reserved {
                Ok(reserved) => this.room = reserved.map(Room::new).map(Box::new),
                Err(error) => {
                    let status = Status::resource_exhausted(error.to_string());
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
        let data = match this.held.is_empty() {
            false => std::mem::take(&mut this.held),
            true => match ready!(this.poll_body(context)).map(Frame::into_data) {
                Ok(Ok(data)) => data,
                Ok(Err(frame)) => return Poll::Ready(Some(Ok(frame))),
                Err(ended) => return Poll::Ready(ended.map(Err)),
            },
        };
        Poll::Ready(Some(Ok(Frame::data(this.pass(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.held.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::{BodyExt as _, StreamBody};
    use memory::in_flight::{self, ConnectionBytes};

    use super::*;

    const LIMIT_BYTES: usize = 2 << 20;

    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend((bytes as u32).to_be_bytes());
        message.extend(vec![7; bytes]);
        message
    }

    /// Returns a body that arrives in frames of `step` bytes.
    fn body(bytes: &[u8], step: usize) -> impl Body<Data = Bytes, Error = Status> + Unpin + use<> {
        let frames: Vec<_> = bytes.chunks(step).map(Bytes::copy_from_slice).collect();
        let frames = frames.into_iter().map(|data| Ok(Frame::data(data)));
        StreamBody::new(futures::stream::iter(frames))
    }

    #[tokio::test]
    async fn messages_pass_unchanged_however_they_arrive() {
        let sizes = [0, 5, 8_192, 8_193, 3, 30_000, 100];
        let bytes: Vec<u8> = sizes.into_iter().flat_map(message).collect();
        for step in [1, 3, 4_096, 1 << 20] {
            let gate = MessageGate::stream(body(&bytes, step), LIMIT_BYTES);
            let passed = gate.collect().await.expect("whole").to_bytes();
            assert!(passed == bytes, "in frames of {step} bytes");
        }
    }

    /// 33 messages of a connection with memory for 32.
    #[tokio::test]
    async fn a_large_message_without_memory_is_refused() {
        let connection = Arc::new(ConnectionBytes::default());
        in_flight::scope(connection, async {
            let mut open = Vec::new();
            for _ in 0..32 {
                let unfinished = &message(LIMIT_BYTES)[..100_000];
                let mut gate = MessageGate::unary(body(unfinished, 50_000), LIMIT_BYTES);
                gate.frame().await.expect("a frame").expect("the prefix");
                gate.frame().await.expect("a frame").expect("memory");
                open.push(gate);
            }
            let bytes = message(LIMIT_BYTES);
            let late = MessageGate::unary(body(&bytes, 50_000), LIMIT_BYTES)
                .collect()
                .await;
            let status = late.expect_err("no memory");
            assert_eq!(status.code(), tonic::Code::ResourceExhausted);
            let small = MessageGate::unary(body(&message(1_000), 50), LIMIT_BYTES)
                .collect()
                .await;
            assert_eq!(small.expect("it needs none").to_bytes().len(), 1_005);
            open.pop();
            let next = MessageGate::unary(body(&bytes, 50_000), LIMIT_BYTES)
                .collect()
                .await;
            assert!(next.is_ok(), "memory was released");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_go_on_is_given_up() {
        let connection = Arc::new(ConnectionBytes::default());
        in_flight::scope(connection, async {
            let begin = Ok::<_, Status>(Frame::data(Bytes::from(message(100_000)).slice(..9_000)));
            let frames = futures::StreamExt::chain(
                futures::stream::iter([begin]),
                futures::stream::pending(),
            );
            let gate = MessageGate::unary(Box::pin(StreamBody::new(frames)), LIMIT_BYTES);
            let status = gate.collect().await.expect_err("it is never whole");
            assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        })
        .await;
    }

    #[tokio::test]
    async fn what_is_too_large_passes_to_the_reader_that_rejects_it() {
        let bytes = message(LIMIT_BYTES + 1);
        let gate = MessageGate::unary(body(&bytes, 1 << 20), LIMIT_BYTES);
        assert!(gate.collect().await.is_ok());
    }
}
