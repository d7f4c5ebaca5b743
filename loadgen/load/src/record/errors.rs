//! Errors, counted by their texts and by their classes.

use std::collections::HashMap;

use etcd_api::error::{Error as EtcdError, Refusal};
use tonic::Code;

/// The largest number of texts that are counted separately. A text that names an object can exist
/// for every object.
const MAX_TEXTS: usize = 100;

/// What an error means for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The server refused the request because it had too many.
    Refused,
    /// There was no response in time, by the clock of the generator or of the server.
    TimedOut,
    /// There was no connection, or it was lost.
    Disconnected,
    /// The response was wrong, or the failure cannot be explained by load.
    Wrong,
}

impl Class {
    pub(crate) fn of_etcd(error: &EtcdError) -> Self {
        match error {
            EtcdError::Refused(Refusal::TooManyRequests) => Self::Refused,
            EtcdError::Refused(
                Refusal::Timeout
                | Refusal::DeadlineExceeded
                | Refusal::LeaderChanged
                | Refusal::NoLeader,
            )
            | EtcdError::Timeout(_) => Self::TimedOut,
            EtcdError::Refused(Refusal::Stopped)
            | EtcdError::Unreachable { .. }
            | EtcdError::Status {
                code: Code::Unavailable,
                ..
            } => Self::Disconnected,
            _ => Self::Wrong,
        }
    }

    /// Returns the class of a status of the Kubernetes API.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            429 => Self::Refused,
            504 => Self::TimedOut,
            _ => Self::Wrong,
        }
    }
}

/// The number of failed requests, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    counts: HashMap<String, (Class, u64)>,
    /// The number of errors whose texts are not counted separately.
    others: u64,
    /// The number of requests that the server refused because it had too many.
    pub refused: u64,
    /// The number of requests without a response in time: by the end of the run, or before the
    /// server gave up.
    pub unanswered: u64,
    /// The number of requests that had no connection, or lost it.
    pub disconnected: u64,
    /// The number of all others: wrong responses, and failures that load does not explain.
    pub wrong: u64,
}

impl Errors {
    /// Counts requests that failed for the same reason.
    pub fn add(&mut self, count: u64, class: Class, text: String) {
        *match class {
            Class::Refused => &mut self.refused,
            Class::TimedOut => &mut self.unanswered,
            Class::Disconnected => &mut self.disconnected,
            Class::Wrong => &mut self.wrong,
        } += count;
        self.count(count, class, text);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.disconnected += other.disconnected;
        self.wrong += other.wrong;
        self.others += other.others;
        for (text, (class, count)) in &other.counts {
            self.count(*count, *class, text.clone());
        }
    }

    fn count(&mut self, count: u64, class: Class, text: String) {
        if self.counts.len() < MAX_TEXTS || self.counts.contains_key(&text) {
            self.counts.entry(text).or_insert((class, 0)).1 += count;
        } else {
            self.others += count;
        }
    }

    /// Returns how often this text was counted.
    #[must_use]
    pub fn of(&self, text: &str) -> u64 {
        self.counts.get(text).map_or(0, |(_, count)| *count)
    }

    /// Returns the `few` most frequent texts.
    #[must_use]
    pub fn most_frequent(&self, few: usize) -> Vec<String> {
        let texts = self.by_count().into_iter().take(few);
        texts.map(|(text, _)| text.to_owned()).collect()
    }

    /// Returns the most frequent text of the class [`Class::Wrong`]; `None` if there is none.
    #[must_use]
    pub fn most_wrong(&self) -> Option<String> {
        let mut texts = self.by_count().into_iter();
        let wrong = texts.find(|(_, class)| *class == Class::Wrong);
        let text = wrong.map(|(text, _)| text.to_owned());
        // If there are many texts, that one may not be counted separately.
        text.or_else(|| (self.wrong > 0).then(|| format!("one of {} further errors", self.others)))
    }

    fn by_count(&self) -> Vec<(&str, Class)> {
        let mut errors: Vec<_> = self.counts.iter().collect();
        errors.sort_by(|(a, (_, most)), (b, (_, more))| more.cmp(most).then_with(|| a.cmp(b)));
        let errors = errors.into_iter();
        errors
            .map(|(text, (class, _))| (text.as_str(), *class))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_explains_refusals_and_what_was_left_and_nothing_else() {
        let mut errors = Errors::default();
        let etcd = |error: EtcdError| (Class::of_etcd(&error), error.to_string());
        let unavailable = EtcdError::Status {
            code: Code::Unavailable,
            message: "connection closed".to_owned(),
        };
        for (count, (class, text)) in [
            (4, etcd(EtcdError::Refused(Refusal::TooManyRequests))),
            (3, etcd(EtcdError::Refused(Refusal::Timeout))),
            (2, etcd(unavailable)),
            (1, etcd(EtcdError::Refused(Refusal::NoSpace))),
        ] {
            errors.add(count, class, text);
        }
        let mut all = errors.clone();
        all.merge(&errors);
        let Errors {
            refused,
            unanswered,
            disconnected,
            wrong,
            ..
        } = all;
        assert_eq!([refused, unanswered, disconnected, wrong], [8, 6, 4, 2]);
        assert_eq!(
            all.most_frequent(2),
            [
                "etcdserver: too many requests",
                "etcdserver: request timed out"
            ]
        );
        let no_space = "etcdserver: mvcc: database space exceeded";
        assert_eq!(all.most_wrong().as_deref(), Some(no_space));
    }

    #[test]
    fn texts_that_name_objects_do_not_fill_the_memory() {
        let mut errors = Errors::default();
        for i in 0..1_000 {
            errors.add(1, Class::Refused, format!("{i:04} is refused"));
        }
        assert_eq!(errors.most_wrong(), None);
        errors.add(1, Class::Wrong, "0 is lost".to_owned());
        errors.add(1, Class::Refused, "0000 is refused".to_owned());
        assert_eq!((errors.refused, errors.wrong), (1_001, 1));
        assert_eq!((errors.counts.len(), errors.others), (MAX_TEXTS, 901));
        assert_eq!(errors.of("0000 is refused"), 2);
        let frequent = errors.most_frequent(2);
        assert_eq!(frequent, ["0000 is refused", "0001 is refused"]);
        let wrong = errors.most_wrong();
        assert_eq!(wrong.as_deref(), Some("one of 901 further errors"));
    }
}
