//! The latest events of a resource, from which watches are resumed.
//!
//! When the history is full, its capacity doubles if its events span less than [`FRESH`], and
//! halves if the newest quarter of them spans more, as in k8s.io/apiserver's watch cache. So a busy
//! resource has as much history as a quiet one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::event::Event;

/// The time that the history should span.
const FRESH: Duration = Duration::from_secs(75);
/// The minimum capacity, in events.
const MIN_CAPACITY: usize = 100;
/// The default of the maximum capacity, in events.
pub const MAX_CAPACITY: usize = 102_400;

/// The error that a watch cannot begin at such an early revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOld {
    /// The oldest revision after which every event is kept.
    pub floor: i64,
}

/// A change of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resized {
    Grown,
    Shrunk,
}

/// Events in the order of their revisions.
#[derive(Debug)]
pub(crate) struct EventHistory {
    events: VecDeque<(Instant, Arc<Event>)>,
    capacity: usize,
    /// The maximum capacity.
    most: usize,
    /// Revision of the initial list, or of the last event that was dropped since.
    dropped: i64,
    /// Whether an event was dropped since the initial list.
    evicted: bool,
}

impl Default for EventHistory {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            capacity: MIN_CAPACITY,
            most: MAX_CAPACITY,
            dropped: 0,
            evicted: false,
        }
    }
}

impl EventHistory {
    /// Returns an empty history whose capacity does not exceed `most` events, or [`MIN_CAPACITY`]
    /// if that is more.
    pub(crate) fn with_max_capacity(most: usize) -> Self {
        Self {
            most: most.max(MIN_CAPACITY),
            ..Self::default()
        }
    }

    /// Drops all events. The history then begins after a list at `revision`.
    pub(crate) fn reset(&mut self, revision: i64) {
        self.events.clear();
        self.dropped = revision;
        self.evicted = false;
    }

    /// Returns the current capacity in events.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds an event, whose revision must not be lower than that of an earlier one. Returns how the
    /// capacity has changed, if it has.
    pub(crate) fn push(&mut self, event: Arc<Event>) -> Option<Resized> {
        let now = Instant::now();
        let resized = self.resize(now);
        if self.events.len() >= self.capacity {
            self.evict();
        }
        self.events.push_back((now, event));
        resized
    }

    /// Returns the oldest revision after which every event is kept.
    pub(crate) fn floor(&self) -> i64 {
        match self.events.front() {
            Some((_, oldest)) if self.evicted => self.dropped.max(oldest.revision() - 1),
            _ => self.dropped,
        }
    }

    /// Returns about `most` events after `revision`, the oldest first. The events of a revision are
    /// returned all or not at all.
    ///
    /// # Errors
    /// [`TooOld`] if some of these events have been dropped.
    pub(crate) fn after(&self, revision: i64, most: usize) -> Result<Vec<Arc<Event>>, TooOld> {
        let floor = self.floor();
        if revision < floor {
            return Err(TooOld { floor });
        }
        let from = self
            .events
            .partition_point(|(_, event)| event.revision() <= revision);
        let mut taken: Vec<Arc<Event>> = Vec::new();
        for (_, event) in self.events.range(from..) {
            let whole = |last: &Arc<Event>| last.revision() != event.revision();
            if taken.len() >= most && taken.last().is_some_and(whole) {
                break;
            }
            taken.push(event.clone());
        }
        Ok(taken)
    }

    fn resize(&mut self, now: Instant) -> Option<Resized> {
        if self.events.len() < self.capacity {
            return None;
        }
        let age = |at: usize| now - self.events[at].0;
        if age(0) < FRESH {
            let capacity = (2 * self.capacity).min(self.most);
            let grows = capacity > self.capacity;
            self.capacity = capacity;
            return grows.then_some(Resized::Grown);
        }
        if age(self.events.len() - self.capacity / 4) > FRESH && self.capacity > MIN_CAPACITY {
            self.capacity = (self.capacity / 2).max(MIN_CAPACITY);
            while self.events.len() > self.capacity {
                self.evict();
            }
            return Some(Resized::Shrunk);
        }
        None
    }

    /// Drops all events of the oldest revision. A watch would mistake a part of them for all.
    fn evict(&mut self) {
        let Some((_, oldest)) = self.events.pop_front() else {
            return;
        };
        while self
            .events
            .front()
            .is_some_and(|(_, event)| event.revision() == oldest.revision())
        {
            self.events.pop_front();
        }
        self.dropped = oldest.revision();
        self.evicted = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::RESOURCES;
    use crate::resource::object::Object;

    fn event(revision: i64) -> Arc<Event> {
        let value = kube_api::envelope::seal("v1", "Pod", &[]);
        let pods = &RESOURCES[0];
        let object = Object::decode(pods, b"a/b", &value, revision).expect("an empty pod");
        Arc::new(Event::new(revision, None, Some(object)).expect("an object"))
    }

    fn revisions(events: &[Arc<Event>]) -> Vec<i64> {
        events.iter().map(|event| event.revision()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_resumes_after_the_list_and_not_before() {
        let mut history = EventHistory::default();
        history.reset(107);
        for revision in [110, 112, 112, 115] {
            history.push(event(revision));
        }
        assert_eq!(history.after(106, 10).err(), Some(TooOld { floor: 107 }));
        let all = history.after(107, 10).expect("kept");
        assert_eq!(revisions(&all), [110, 112, 112, 115]);
        let some = history.after(110, 1).expect("kept");
        assert_eq!(revisions(&some), [112, 112], "revisions are whole");
        assert!(history.after(500, 10).expect("in the future").is_empty());
        history.reset(200);
        assert_eq!(history.after(115, 10).err(), Some(TooOld { floor: 200 }));
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_eviction_the_floor_is_right_below_the_oldest_event() {
        let mut history = EventHistory::default();
        history.reset(1);
        for i in 0..MIN_CAPACITY as i64 {
            history.push(event(10 * (i + 1)));
        }
        assert_eq!(history.floor(), 1, "nothing was dropped yet");
        tokio::time::advance(FRESH + Duration::from_secs(1)).await;
        history.push(event(5_000));
        assert_eq!(history.floor(), 19);
        assert!(history.after(19, 1).is_ok() && history.after(18, 1).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_smaller_one_drops_events_however_young_they_are() {
        let mut history = EventHistory::with_max_capacity(150);
        for revision in 1..=1_000 {
            history.push(event(revision));
        }
        assert_eq!((history.capacity(), history.events.len()), (150, 150));
        assert_eq!(history.floor(), 850);
        assert!(history.after(850, 1).is_ok() && history.after(849, 1).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn it_grows_while_events_are_young_and_shrinks_when_few_come() {
        let mut history = EventHistory::default();
        let mut grown = 0;
        for revision in 1..=2 * MAX_CAPACITY as i64 {
            grown += usize::from(history.push(event(revision)) == Some(Resized::Grown));
        }
        assert_eq!(
            (history.capacity(), history.events.len(), grown),
            (MAX_CAPACITY, MAX_CAPACITY, 10)
        );
        let mut revision = 1_000_000;
        while history.capacity() > MIN_CAPACITY {
            tokio::time::advance(FRESH / 10).await;
            revision += 1;
            history.push(event(revision));
            assert!(revision < 1_100_000, "it shrinks");
            assert_eq!(history.events.len(), history.capacity());
        }
        let kept = history.after(history.floor(), MAX_CAPACITY).expect("kept");
        assert_eq!(kept.len(), MIN_CAPACITY);
        assert_eq!(kept.last().map(|event| event.revision()), Some(revision));
    }
}
