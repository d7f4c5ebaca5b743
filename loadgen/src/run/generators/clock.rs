//! Measures the difference between the clocks of two generators, through the target: one generator
//! writes a note, the first generator waits for it and writes its current time, and the asking
//! generator measures how long that took.
//!
//! The first generator read its clock in the middle of that time, give or take half of it (NTP's
//! formula). The shortest of several attempts is the most accurate.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::note_store::{ASKED, NoteStore, NoteStoreError, Questions};

/// The number of attempts, of which the shortest counts.
const TRIES: u32 = 20;
/// How long one attempt may take.
const CLOCK_REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between reads of the response. Half of it adds to the uncertainty.
const BETWEEN_READS: Duration = Duration::from_millis(1);
/// The prefix of notes with the first generator's time, followed by the number of the generator
/// that asked.
const TOLD: &str = "clock/told/";

/// Why clocks could not be compared.
#[derive(Debug, thiserror::Error)]
pub(in crate::run) enum ClockError {
    /// The target failed.
    #[error(transparent)]
    Notes(#[from] NoteStoreError),
    /// The first generator does not respond.
    #[error("generator 0 did not send its time within {} s", CLOCK_REPLY_TIMEOUT.as_secs())]
    Silent,
    /// The rendezvous is over.
    #[error("generator 0 ended before it sent its time")]
    Gone,
}

/// The difference of a clock to the first generator's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::run) struct ClockDifference {
    /// How far this clock is ahead, in ms; negative if it is behind.
    pub(in crate::run) ahead_ms: f64,
    /// The uncertainty of `ahead_ms`, in ms.
    pub(in crate::run) within_ms: f64,
}

impl ClockDifference {
    /// Returns the largest possible difference of the clocks in ms: the measured one and its
    /// uncertainty.
    pub(in crate::run) fn at_most_ms(self) -> f64 {
        self.ahead_ms.abs() + self.within_ms
    }

    /// Returns the time that this clock shows when the first generator's shows `at`.
    pub(super) fn here(self, at: SystemTime) -> SystemTime {
        let by = Duration::from_secs_f64(self.ahead_ms.abs() / 1e3);
        match self.ahead_ms < 0.0 {
            true => at - by,
            false => at + by,
        }
    }
}

/// One attempt.
#[derive(Debug, Clone, Copy)]
struct Try {
    asked: SystemTime,
    told: SystemTime,
    took: Duration,
}

impl Try {
    fn difference(self) -> ClockDifference {
        let middle = self.asked + self.took / 2;
        let ahead_ms = match middle.duration_since(self.told) {
            Ok(ahead) => ahead.as_secs_f64() * 1e3,
            Err(behind) => -behind.duration().as_secs_f64() * 1e3,
        };
        ClockDifference {
            ahead_ms,
            within_ms: self.took.as_secs_f64() * 1e3 / 2.0,
        }
    }
}

/// Responds with the current time to every generator that asks, until the returned handle is
/// dropped. Questions that are written after this function returns have a response.
///
/// # Errors
/// Those of the target.
pub(super) async fn tell(notes: &NoteStore) -> Result<AbortOnDropHandle<()>, NoteStoreError> {
    let questions = notes.questions().await?;
    let telling = tell_each(notes.clone(), questions);
    Ok(AbortOnDropHandle::new(tokio::spawn(telling)))
}

async fn tell_each(notes: NoteStore, mut questions: Questions) {
    // The generator that asked reports a missing response; here the error has no receiver.
    while let Ok(asked) = questions.next().await {
        let now = since_1970(SystemTime::now());
        for question in asked {
            let told = format!("{TOLD}{}", question.generator);
            let time = format!("{} {}", question.text, now.as_nanos());
            if notes.put(&told, time).await.is_err() {
                return;
            }
        }
    }
}

/// Asks the first generator for its time.
///
/// # Errors
/// When the target fails, or the first generator does not respond.
pub(super) async fn ask(notes: &NoteStore, generator: u32) -> Result<ClockDifference, ClockError> {
    let mut best: Option<Try> = None;
    for number in 0..TRIES {
        let one = timeout(CLOCK_REPLY_TIMEOUT, ask_once(notes, generator, number)).await;
        let one = one.map_err(|_| ClockError::Silent)??;
        if best.is_none_or(|best| one.took < best.took) {
            best = Some(one);
        }
    }
    Ok(best.map(Try::difference).unwrap_or_default())
}

async fn ask_once(notes: &NoteStore, generator: u32, number: u32) -> Result<Try, ClockError> {
    let asked = SystemTime::now();
    let begun = Instant::now();
    let question = format!("{ASKED}{generator}");
    if !notes.put(&question, number.to_string()).await? {
        return Err(ClockError::Gone);
    }
    let answer = format!("{TOLD}{generator}");
    loop {
        let value = notes.get(&answer).await?;
        let took = begun.elapsed();
        if let Some(told) = value.and_then(|value| time_in_note(&value, number)) {
            return Ok(Try { asked, told, took });
        }
        // The notes may be on an API that is in use by others, and several generators ask at the
        // same time.
        tokio::time::sleep(BETWEEN_READS).await;
    }
}

/// Returns the time in a response to the attempt with this number; `None` if the response is to
/// another attempt.
fn time_in_note(value: &[u8], number: u32) -> Option<SystemTime> {
    let (told_for, nanos) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    let is_for_it = told_for.parse() == Ok(number);
    let nanos = nanos.parse().ok().filter(|_| is_for_it)?;
    UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))
}

fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    #[test]
    fn the_middle_of_a_try_is_held_against_what_was_told() {
        let ahead = Try {
            asked: at(10_000),
            told: at(9_705),
            took: Duration::from_millis(10),
        };
        let ahead = ahead.difference();
        assert!((ahead.ahead_ms - 300.0).abs() < 1e-6, "{ahead:?}");
        assert!((ahead.within_ms - 5.0).abs() < 1e-6, "{ahead:?}");
        assert_eq!(ahead.here(at(20_000)), at(20_300));
        assert!((ahead.at_most_ms() - 305.0).abs() < 1e-6, "{ahead:?}");
        let behind = Try {
            asked: at(10_000),
            told: at(10_205),
            took: Duration::from_millis(10),
        };
        let behind = behind.difference();
        assert!((behind.ahead_ms + 200.0).abs() < 1e-6, "{behind:?}");
        assert_eq!(behind.here(at(20_000)), at(19_800));
        assert!((behind.at_most_ms() - 205.0).abs() < 1e-6, "{behind:?}");
    }

    #[test]
    fn only_the_answer_to_a_try_counts() {
        assert_eq!(time_in_note(b"3 5000000", 3), Some(at(5)));
        assert_eq!(time_in_note(b"2 5000000", 3), None);
        for text in ["", "3", "3 ", "3 x", "x 5", "3 -5"] {
            assert_eq!(time_in_note(text.as_bytes(), 3), None, "{text}");
        }
    }
}
