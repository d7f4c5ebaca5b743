//! The open calls of a connection, by HTTP/2 stream id.

use std::collections::VecDeque;

/// Maximum number of message buffers kept for later calls, and maximum size of each, bytes.
const MAX_SPARE_BUFFERS: usize = 64;
const MAX_SPARE_BUFFER_BYTES: usize = 64 * 1024;

/// A call whose response has not ended.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) token: u64,
    /// Body bytes received so far.
    pub(super) body: Vec<u8>,
    /// Number of those bytes for which no WINDOW_UPDATE has been sent.
    pub(super) unacknowledged: u32,
    /// Whether headers with status 200 have been received.
    pub(super) head: bool,
}

/// The open calls. A client's stream ids increase by two, and calls end in roughly the order in
/// which they began, so this is a queue with gaps.
#[derive(Debug)]
pub(super) struct Streams {
    calls: VecDeque<Option<Call>>,
    /// Stream id of the first element of `calls`.
    first: u32,
    open: usize,
    spare: Vec<Vec<u8>>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            calls: VecDeque::new(),
            first: 1,
            open: 0,
            spare: Vec::new(),
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Returns the stream id of the next call; `None` once all ids are used up.
    pub(super) fn next_id(&self) -> Option<u32> {
        let offset = u32::try_from(self.calls.len()).ok()?.checked_mul(2)?;
        let id = self.first.checked_add(offset)?;
        (id < 1 << 31).then_some(id)
    }

    /// Sets the stream id of the next call.
    #[cfg(test)]
    pub(super) fn continue_at(&mut self, id: u32) {
        assert!(self.calls.is_empty() && id % 2 == 1 && id >= self.first);
        self.first = id;
    }

    /// Opens a call under [`next_id`](Self::next_id).
    pub(super) fn push(&mut self, token: u64) {
        self.open += 1;
        self.calls.push_back(Some(Call {
            token,
            body: self.spare.pop().unwrap_or_default(),
            ..Call::default()
        }));
    }

    /// Returns whether a call, open or ended, has used this id.
    pub(super) fn has_been_opened(&self, id: u32) -> bool {
        id % 2 == 1 && self.next_id().is_none_or(|next| id < next)
    }

    fn index(&self, id: u32) -> Option<usize> {
        let offset = id.checked_sub(self.first)?;
        (offset % 2 == 0).then_some(offset as usize / 2)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Call> {
        let index = self.index(id)?;
        self.calls.get_mut(index)?.as_mut()
    }

    /// Removes and returns a call.
    pub(super) fn take(&mut self, id: u32) -> Option<Call> {
        let index = self.index(id)?;
        let call = self.calls.get_mut(index)?.take()?;
        self.open -= 1;
        while let Some(None) = self.calls.front() {
            self.calls.pop_front();
            self.first += 2;
        }
        Some(call)
    }

    /// Removes and returns the calls from `id` on, in order.
    pub(super) fn remove_from(&mut self, id: u32) -> Vec<Call> {
        let ids = (0..self.calls.len()).map(|i| self.first + 2 * i as u32);
        let ids: Vec<u32> = ids.filter(|&open| open >= id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Keeps the buffer of an ended call for later calls.
    pub(super) fn recycle(&mut self, mut body: Vec<u8>) {
        if self.spare.len() < MAX_SPARE_BUFFERS && body.capacity() <= MAX_SPARE_BUFFER_BYTES {
            body.clear();
            self.spare.push(body);
        }
    }
}
