//! When the objects of one list arrived.

use std::time::Duration;

/// When objects arrived during one list, as times since the call. The client notes a time for each
/// piece of the response that completes an object (an HTTP/2 frame, a part of a body), once the
/// objects are checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectTimes {
    first: Option<Duration>,
    latest: Duration,
    longest_gap: Duration,
}

impl ObjectTimes {
    /// Notes that objects arrived, `elapsed` after the call.
    pub fn note(&mut self, elapsed: Duration) {
        self.end_gap(elapsed);
        self.first.get_or_insert(elapsed);
    }

    /// Notes that the list ended, `elapsed` after the call. Without it, the time from the last
    /// object to the end is no gap.
    pub fn end(&mut self, elapsed: Duration) {
        self.end_gap(elapsed);
    }

    /// Returns the time to the first object; `None` if there was none.
    #[must_use]
    pub fn first(&self) -> Option<Duration> {
        self.first
    }

    /// Returns the longest time in which no object arrived, after the first one and up to the
    /// list's end; `None` if there was no object.
    #[must_use]
    pub fn longest_gap(&self) -> Option<Duration> {
        self.first.map(|_| self.longest_gap)
    }

    fn end_gap(&mut self, elapsed: Duration) {
        if self.first.is_some() {
            self.longest_gap = self.longest_gap.max(elapsed.saturating_sub(self.latest));
        }
        self.latest = elapsed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: &[u64], end: u64) -> ObjectTimes {
        let mut times = ObjectTimes::default();
        for ms in arrivals {
            times.note(Duration::from_millis(*ms));
        }
        times.end(Duration::from_millis(end));
        times
    }

    #[test]
    fn the_longest_gap_lies_between_objects_or_before_the_end() {
        let cases: [(&[u64], u64, u64); 4] = [
            (&[100, 101, 105, 106], 107, 4),
            (&[100, 101], 120, 19),
            // The wait for the first object is no gap.
            (&[500], 501, 1),
            (&[5, 5, 5], 5, 0),
        ];
        for (arrivals, end, gap) in cases {
            let times = times(arrivals, end);
            assert_eq!(times.first(), Some(Duration::from_millis(arrivals[0])));
            assert_eq!(times.longest_gap(), Some(Duration::from_millis(gap)));
        }
    }

    #[test]
    fn a_list_without_objects_has_neither() {
        let times = times(&[], 100);
        assert_eq!((times.first(), times.longest_gap()), (None, None));
    }
}
