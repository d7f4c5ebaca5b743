//! Errors, counted by their texts.

use std::collections::HashMap;

/// Texts that are counted by themselves, at most: one that names an object has as many as there are
/// objects.
const TEXTS: usize = 100;
/// Where the others are counted.
const OTHERS: &str = "errors with further texts";
/// What a server says that refuses a request since it has too many, in its status message.
const REFUSED: &str = "too many requests";
/// How the error of a request begins that had no answer in time.
pub(crate) const NO_ANSWER: &str = "no answer within";

/// How often requests failed, by text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    counts: HashMap<String, u64>,
    /// Requests that the server refused since it had too many.
    pub refused: u64,
    /// Requests that had no answer when the others had theirs.
    pub unanswered: u64,
    /// All others: wrong answers, and failures that no load explains.
    pub wrong: u64,
}

impl Errors {
    /// Counts requests that failed, for one reason.
    pub fn add(&mut self, count: u64, text: String) {
        *match Class::of(&text) {
            Class::Refused => &mut self.refused,
            Class::Unanswered => &mut self.unanswered,
            Class::Wrong => &mut self.wrong,
        } += count;
        self.count(count, text);
    }

    /// Adds those that others counted.
    pub fn merge(&mut self, other: &Self) {
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.wrong += other.wrong;
        for (text, count) in &other.counts {
            self.count(*count, text.clone());
        }
    }

    fn count(&mut self, count: u64, text: String) {
        let is_counted = self.counts.len() < TEXTS || self.counts.contains_key(&text);
        let text = match is_counted {
            true => text,
            false => OTHERS.to_owned(),
        };
        *self.counts.entry(text).or_default() += count;
    }

    /// Returns how often this text was seen.
    #[must_use]
    pub fn of(&self, text: &str) -> u64 {
        self.counts.get(text).copied().unwrap_or(0)
    }

    /// Returns the most frequent texts, `few` at most.
    #[must_use]
    pub fn most_frequent(&self, few: usize) -> Vec<String> {
        let texts = self.by_count().into_iter().take(few);
        texts.map(str::to_owned).collect()
    }

    /// Returns the most frequent text of those that no load explains.
    #[must_use]
    pub fn most_wrong(&self) -> Option<String> {
        let mut texts = self.by_count().into_iter();
        let wrong = texts.find(|text| Class::of(text) == Class::Wrong);
        wrong.map(str::to_owned)
    }

    fn by_count(&self) -> Vec<&str> {
        let mut errors: Vec<_> = self.counts.iter().collect();
        errors.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        errors.into_iter().map(|(text, _)| text.as_str()).collect()
    }
}

/// What an error says of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Refused,
    Unanswered,
    Wrong,
}

impl Class {
    fn of(text: &str) -> Self {
        if text.contains(REFUSED) {
            Self::Refused
        } else if text.starts_with(NO_ANSWER) {
            Self::Unanswered
        } else {
            Self::Wrong
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_explains_refusals_and_what_was_left_and_nothing_else() {
        let mut errors = Errors::default();
        errors.add(3, "etcdserver: too many requests".to_owned());
        errors.add(2, format!("{NO_ANSWER} 10 s"));
        errors.add(1, "the answer for /a is not the object".to_owned());
        let mut all = errors.clone();
        all.merge(&errors);
        assert_eq!((all.refused, all.unanswered, all.wrong), (6, 4, 2));
        assert_eq!(
            all.most_frequent(2),
            ["etcdserver: too many requests", "no answer within 10 s"]
        );
        let wrong = all.most_wrong();
        assert_eq!(
            wrong.as_deref(),
            Some("the answer for /a is not the object")
        );
    }

    #[test]
    fn texts_that_name_objects_do_not_fill_the_memory() {
        let mut errors = Errors::default();
        for i in 0..1_000 {
            errors.add(1, format!("{i} is lost"));
        }
        errors.add(1, "0 is lost".to_owned());
        assert_eq!((errors.wrong, errors.counts.len()), (1_001, TEXTS + 1));
        assert_eq!((errors.of("0 is lost"), errors.of(OTHERS)), (2, 900));
    }
}
