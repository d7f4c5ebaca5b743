//! The open calls of a connection, by HTTP/2 stream id.

use std::collections::VecDeque;

/// Message buffers kept for later calls, and the largest that is kept, bytes.
const MAX_SPARE_BUFFERS: usize = 64;
const MAX_SPARE_BUFFER_BYTES: usize = 64 * 1024;

/// A call whose response has not ended.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) token: u64,
    /// Body bytes received so far.
    pub(super) body: Vec<u8>,
    /// Of these, bytes for which no WINDOW_UPDATE was sent.
    pub(super) unacknowledged: u32,
    /// Whether headers with status 200 were received.
    pub(super) head: bool,
}

/// The open calls. Stream ids of a client rise by two and calls end in about the order in which
/// they began, so this is a queue with gaps.
#[derive(Debug)]
pub(super) struct Streams {
    calls: VecDeque<Option<Call>>,
    /// Id of the first in `calls`.
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

    /// Returns the id of the next call; `None` once ids are used up.
    pub(super) fn next_id(&self) -> Option<u32> {
        let offset = u32::try_from(self.calls.len()).ok()?.checked_mul(2)?;
        let id = self.first.checked_add(offset)?;
        (id < 1 << 31).then_some(id)
    }

    /// Lets the next call have this id.
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

    /// Returns whether a call, open or ended, has had this id.
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

    /// Ends a call.
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

    /// Ends every call from `id` on, in order.
    pub(super) fn remove_from(&mut self, id: u32) -> Vec<Call> {
        let ids = (0..self.calls.len()).map(|i| self.first + 2 * i as u32);
        let ids: Vec<u32> = ids.filter(|&open| open >= id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Keeps the buffer of an ended call for later ones.
    pub(super) fn recycle(&mut self, mut body: Vec<u8>) {
        if self.spare.len() < MAX_SPARE_BUFFERS && body.capacity() <= MAX_SPARE_BUFFER_BYTES {
            body.clear();
            self.spare.push(body);
        }
    }
}
