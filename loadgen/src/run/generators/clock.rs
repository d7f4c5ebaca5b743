//! How far apart the clocks of two generators are, found through the target: the one writes a note,
//! the other waits for it and writes the time that it has then, and the first sees how long that
//! took.
//!
//! The middle of that time is when the other's clock was read, within half of it (NTP's formula).
//! Of several tries the shortest one says most.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::note_store::{ASKED, NoteStore, NoteStoreError, Questions};

/// Tries, of which the shortest counts.
const TRIES: u32 = 20;
/// How long one may take.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Pause between looks for the answer; the clocks are known by half of it less well.
const BETWEEN_READS: Duration = Duration::from_millis(1);
/// What the first generator's clock said, by number of the generator that asked.
const TOLD: &str = "clock/told/";

/// Why clocks were not compared.
#[derive(Debug, thiserror::Error)]
pub(in crate::run) enum ClockError {
    /// The target failed.
    #[error(transparent)]
    Notes(#[from] NoteStoreError),
    /// The first generator does not answer.
    #[error("generator 0 did not tell its time within {} s", TOLD_WITHIN.as_secs())]
    Silent,
    /// The rendezvous is over.
    #[error("generator 0 ended before it told its time")]
    Gone,
}

/// How far a clock is ahead of the first generator's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::run) struct ClockDifference {
    /// Negative where it is behind; ms.
    pub(in crate::run) ahead_ms: f64,
    /// How far that may be from the truth; ms.
    pub(in crate::run) within_ms: f64,
}

impl ClockDifference {
    /// Returns how far apart the clocks are at most, in ms: what was found, and how far that may be
    /// from the truth.
    pub(in crate::run) fn at_most_ms(self) -> f64 {
        self.ahead_ms.abs() + self.within_ms
    }

    /// Returns what this clock shows when the first generator's shows `at`.
    pub(super) fn here(self, at: SystemTime) -> SystemTime {
        let by = Duration::from_secs_f64(self.ahead_ms.abs() / 1e3);
        match self.ahead_ms < 0.0 {
            true => at - by,
            false => at + by,
        }
    }
}

/// One try.
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

/// Tells the time to every generator that asks, until it is dropped; questions of later than when
/// this returns are heard.
///
/// # Errors
/// The target's.
pub(super) async fn tell(notes: &NoteStore) -> Result<AbortOnDropHandle<()>, NoteStoreError> {
    let questions = notes.questions().await?;
    let telling = tell_each(notes.clone(), questions);
    Ok(AbortOnDropHandle::new(tokio::spawn(telling)))
}

async fn tell_each(notes: NoteStore, mut questions: Questions) {
    // Who gets no answer says so; this end has nobody to tell.
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
/// When the target fails, or nobody tells the time.
pub(super) async fn ask(notes: &NoteStore, generator: u32) -> Result<ClockDifference, ClockError> {
    let mut best: Option<Try> = None;
    for number in 0..TRIES {
        let one = timeout(TOLD_WITHIN, ask_once(notes, generator, number)).await;
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
        // The notes may be somebody's API, which others ask at the same time.
        tokio::time::sleep(BETWEEN_READS).await;
    }
}

/// Returns the time that was told for the try of this number; `None` where it was for another.
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
